#include "text/jinja/runtime/value.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace incipit::jinja {
namespace {

constexpr size_t kIndexedFrom = 9;  // below, a scan is faster than an index

template <typename T>
int ThreeWay(const T& left, const T& right) {
  return left < right ? -1 : right < left ? 1 : 0;
}

int CompareIntWithReal(Int integer, double real) {
  constexpr double kBeyond = 9223372036854775808.0;  // 2^63
  if (real >= kBeyond) return -1;
  if (real < -kBeyond) return 1;
  const Int floor = static_cast<Int>(std::floor(real));
  if (integer != floor) return integer < floor ? -1 : 1;
  return std::floor(real) < real ? -1 : 0;
}

// The same for kinds whose values may be equal.
int KeyRank(const Value& value) {
  return value.is_number() ? static_cast<int>(Kind::kInt) : static_cast<int>(value.kind());
}

}  // namespace

Value Value::String(TextPtr text, bool markup) {
  Value result(Kind::kString, {.integer = 0});
  result.text_ = std::move(text);
  result.markup_ = markup;
  return result;
}

Value Value::WithOrigin(Origin origin) const {
  Value result = *this;
  result.origin_ = origin;
  return result;
}

bool Value::IsSame(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kMissing:
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return data_.boolean == other.data_.boolean;
    case Kind::kInt:
      return data_.integer == other.data_.integer;
    case Kind::kFloat:
      return data_.real == other.data_.real;
    case Kind::kString:
      return text_ == other.text_ || text_->bytes == other.text_->bytes;
    default:
      return Address() == other.Address();
  }
}

const Cell* Value::Address() const {
  switch (kind_) {
    case Kind::kUndefined:
      return data_.undefined;
    case Kind::kDict:
      return data_.dict;
    case Kind::kRange:
      return data_.range;
    case Kind::kIterator:
      return data_.iterator;
    case Kind::kObject:
      return data_.object;
    default:
      return data_.list;
  }
}

Int Range::size() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return stop < start ? (start - stop - 1) / -step + 1 : 0;
}

bool Range::Contains(Int value) const {
  const bool inside = step > 0 ? value >= start && value < stop : value <= start && value > stop;
  return inside && (value - start) % step == 0;
}

int CompareNumbers(const Value& left, const Value& right) {
  const bool left_real = left.is(Kind::kFloat), right_real = right.is(Kind::kFloat);
  if (left_real && right_real) return ThreeWay(left.real(), right.real());
  if (left_real) return -CompareIntWithReal(right.integer(), left.real());
  if (right_real) return CompareIntWithReal(left.integer(), right.real());
  return ThreeWay(left.integer(), right.integer());
}

int CompareKeys(const Value& left, const Value& right) {
  if (KeyRank(left) != KeyRank(right)) return ThreeWay(KeyRank(left), KeyRank(right));
  switch (left.kind()) {
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat: {
      const bool left_nan = std::isnan(left.real()), right_nan = std::isnan(right.real());
      if (left_nan || right_nan) return ThreeWay(left_nan, right_nan);
      return CompareNumbers(left, right);
    }
    case Kind::kString:
      return left.bytes().compare(right.bytes());
    case Kind::kTuple: {
      const auto &a = left.list().items, &b = right.list().items;
      for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
        if (const int order = CompareKeys(a[i], b[i]); order != 0) return order;
      }
      return ThreeWay(a.size(), b.size());
    }
    case Kind::kRange:
    case Kind::kIterator:
    case Kind::kObject:
      return ThreeWay(reinterpret_cast<uintptr_t>(left.Address()),
                      reinterpret_cast<uintptr_t>(right.Address()));
    default:
      return 0;
  }
}

bool KeyLess::operator()(const Value& left, const Value& right) const {
  return CompareKeys(left, right) < 0;
}

std::optional<size_t> Dict::IndexOf(const Value& key) const {
  if (!index_.empty()) {
    const auto it = index_.find(key);
    return it == index_.end() ? std::nullopt : std::optional(it->second);
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (CompareKeys(entries_[i].key, key) == 0) return i;
  }
  return std::nullopt;
}

const Value* Dict::Find(const Value& key) const {
  const std::optional<size_t> index = IndexOf(key);
  return index ? &entries_[*index].value : nullptr;
}

void Dict::Set(const Value& key, Value value) {
  depth = std::max({depth, 1 + DepthOf(key), 1 + DepthOf(value)});
  if (const std::optional<size_t> index = IndexOf(key)) {
    entries_[*index].value = std::move(value);
    return;
  }
  entries_.push_back({key, std::move(value)});
  if (entries_.size() == kIndexedFrom) {
    for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].key, i);
  } else if (entries_.size() > kIndexedFrom) {
    index_.emplace(key, entries_.size() - 1);
  }
}

std::string Object::Repr() const { return fmt::format("<{} object>", type_name()); }

absl::StatusOr<Value> Object::Call(Interpreter&, Arguments&) {
  return InvalidArgument("'{}' object is not callable", type_name());
}

absl::StatusOr<std::optional<Value>> Object::Attribute(Interpreter&, std::string_view) {
  return std::optional<Value>();
}

absl::StatusOr<Iterator*> Object::Iterate(Interpreter&) { return nullptr; }

absl::StatusOr<std::optional<int64_t>> Object::Length(Interpreter&) {
  return std::optional<int64_t>();
}

std::string_view TypeName(const Value& value) {
  if (value.is_markup()) return "Markup";
  if (value.is(Kind::kObject)) return value.object().type_name();
  constexpr std::string_view kNames[] = {"Undefined", "Undefined", "NoneType", "bool",
                                         "int",       "float",     "str",      "list",
                                         "tuple",     "dict",      "range",    "generator"};
  return kNames[static_cast<size_t>(value.kind())];
}

int32_t DepthOf(const Value& value) {
  if (value.is_sequence()) return value.list().depth;
  return value.is(Kind::kDict) ? value.dict().depth : 0;
}

bool IsHashable(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kDict:
      return false;
    case Kind::kTuple:
      for (const Value& item : value.list().items) {
        if (!IsHashable(item)) return false;
      }
      return true;
    default:
      return true;
  }
}

}  // namespace incipit::jinja
