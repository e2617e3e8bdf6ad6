#include "text/jinja/runtime/value.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "text/jinja/runtime/heap.h"

namespace incipit::jinja {
namespace {

// Minimum number of entries of a dict with a search index. A smaller dict is searched entry by
// entry, which is faster.
constexpr size_t kIndexedFrom = 9;

template <typename T>
int ThreeWay(const T& left, const T& right) {
  return left < right ? -1 : right < left ? 1 : 0;
}

int CompareIntWithReal(Int integer, double real) {
  // 2^63, which is greater than every Int and is exactly representable as a double.
  constexpr double kBeyond = 9223372036854775808.0;
  if (real >= kBeyond) return -1;
  if (real < -kBeyond) return 1;
  const Int floor = static_cast<Int>(std::floor(real));
  if (integer != floor) return integer < floor ? -1 : 1;
  return std::floor(real) < real ? -1 : 0;
}

// Returns the first sort criterion of dict keys: a number for the kind of `value`. All kinds of
// numbers have the same rank, because an integer, a float and a boolean may be equal.
int KeyRank(const Value& value) {
  return value.is_number() ? static_cast<int>(Kind::kInt) : static_cast<int>(value.kind());
}

bool KeysEqual(const Value& left, std::string_view right) {
  return left.is_string() && left.bytes() == right;
}
bool KeysEqual(const Value& left, const Value& right) { return CompareKeys(left, right) == 0; }

}  // namespace

Value Value::Shared(const Text* text, bool markup) {
  Value result(Kind::kString, {.text = text});
  ++text->num_uses_;
  result.is_shared_ = true;
  result.markup_ = markup;
  return result;
}

void Value::Free() {
  // No other Value uses this Text, so the Text may be changed.
  Text& text = const_cast<Text&>(*data_.text);
  text.heap_->Free(text);
}

Value Value::WithMarkup(bool markup) const {
  Value result = *this;
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
  if (is_string()) return data_.text == other.data_.text || bytes() == other.bytes();
  if (is(Kind::kFloat)) return data_.real == other.data_.real;
  if (is_integral()) return integer() == other.integer();
  return is_none() || Address() == other.Address();
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
  if (left.is_number()) {
    const bool left_nan = std::isnan(left.real()), right_nan = std::isnan(right.real());
    if (left_nan || right_nan) return ThreeWay(left_nan, right_nan);
    return CompareNumbers(left, right);
  }
  if (left.is_string()) return left.bytes().compare(right.bytes());
  if (left.is_none() || left.is_undefined()) return 0;
  if (!left.is(Kind::kTuple)) return ThreeWay(left.Address(), right.Address());
  const auto &a = left.list().items, &b = right.list().items;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (const int order = CompareKeys(a[i], b[i]); order != 0) return order;
  }
  return ThreeWay(a.size(), b.size());
}

bool KeyLess::operator()(const Value& left, const Value& right) const {
  return CompareKeys(left, right) < 0;
}
bool KeyLess::operator()(const Value& left, std::string_view right) const {
  return left.is_string() ? left.bytes() < right : left.kind() < Kind::kString;
}
bool KeyLess::operator()(std::string_view left, const Value& right) const {
  return right.is_string() ? left < right.bytes() : Kind::kString < right.kind();
}

std::string UndefinedReason::Message() const {
  if (type.empty()) return message;
  if (!key.is_string()) return fmt::format("'{} object' has no element for the index or key", type);
  return fmt::format("'{} object' has no attribute '{}'", type, key.bytes().substr(0, 100));
}

template <typename Key>
std::optional<size_t> Dict::IndexOf(const Key& key) const {
  if (entries_.size() < kIndexedFrom) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (KeysEqual(entries_[i].key, key)) return i;
    }
    return std::nullopt;
  }
  if (index_ == nullptr) {
    index_ = std::make_unique<Index>();
    for (size_t i = 0; i < entries_.size(); ++i) index_->emplace(entries_[i].key, i);
  }
  const auto it = index_->find(key);
  return it == index_->end() ? std::nullopt : std::optional(it->second);
}

const Value* Dict::Find(const Value& key) const {
  if (key.is_string()) return Find(key.bytes());
  const std::optional<size_t> index = IndexOf(key);
  return index ? &entries_[*index].value : nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  const std::optional<size_t> index = IndexOf(key);
  return index ? &entries_[*index].value : nullptr;
}

void Dict::Set(const Value& key, Value value) {
  const std::optional<size_t> index = key.is_string() ? IndexOf(key.bytes()) : IndexOf(key);
  if (!index) return Append(key, std::move(value));
  depth = std::max(depth, 1 + DepthOf(value));
  entries_[*index].value = std::move(value);
}

void Dict::Append(Value key, Value value) {
  depth = std::max({depth, 1 + DepthOf(key), 1 + DepthOf(value)});
  if (index_ != nullptr) index_->emplace(key, entries_.size());
  entries_.push_back({std::move(key), std::move(value)});
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

int64_t LengthOf(const Value& value) {
  if (value.is_sequence()) return static_cast<int64_t>(value.list().items.size());
  if (value.is_string()) return static_cast<int64_t>(value.text().num_chars);
  if (value.is(Kind::kDict)) return static_cast<int64_t>(value.dict().size());
  return value.is(Kind::kRange) ? value.range().size() : 0;
}

int32_t DepthOf(const Value& value) {
  if (value.is_sequence()) return value.list().depth;
  return value.is(Kind::kDict) ? value.dict().depth : 0;
}

bool IsHashable(const Value& value) {
  if (value.is(Kind::kTuple)) return std::ranges::all_of(value.list().items, IsHashable);
  return !value.is(Kind::kList) && !value.is(Kind::kDict);
}

}  // namespace incipit::jinja
