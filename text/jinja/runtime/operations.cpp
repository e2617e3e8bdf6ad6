#include "text/jinja/runtime/operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/status.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/iterators.h"
#include "text/jinja/runtime/objects.h"

namespace incipit::jinja {
namespace {

absl::StatusOr<bool> SequencesEqual(Interpreter& in, const List& left, const List& right) {
  if (left.items.size() != right.items.size()) return false;
  for (size_t i = 0; i < left.items.size(); ++i) {
    if (left.items[i].IsSame(right.items[i])) continue;
    INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, left.items[i], right.items[i]));
    if (!equal) return false;
  }
  return true;
}

absl::StatusOr<bool> DictsEqual(Interpreter& in, const Dict& left, const Dict& right) {
  if (left.size() != right.size()) return false;
  for (const Dict::Entry& entry : left.entries()) {
    const Value* other = right.Find(entry.key);
    if (other == nullptr) return false;
    if (entry.value.IsSame(*other)) continue;
    INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, entry.value, *other));
    if (!equal) return false;
  }
  return true;
}

bool RangesEqual(const Range& left, const Range& right) {
  const Int size = left.size();
  if (size != right.size()) return false;
  if (size == 0) return true;
  return left.start == right.start && (size == 1 || left.step == right.step);
}

// Returns whether the comparison `op` of two values is true. `order` is negative if the left value
// is less, 0 if both are equal, and positive if the left value is greater.
bool Holds(CompareOp op, int order) {
  switch (op) {
    case CompareOp::kLess:
      return order < 0;
    case CompareOp::kLessEqual:
      return order <= 0;
    case CompareOp::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

std::string_view Spelling(CompareOp op) {
  constexpr std::string_view kSpellings[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSpellings[static_cast<size_t>(op)];
}

// Compares two values with the operator <, <=, > or >=, as Python does.
absl::StatusOr<bool> CompareOrder(Interpreter& in, CompareOp op, const Value& left,
                                  const Value& right) {
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  if (left.is_undefined()) return UndefinedError(left);
  if (right.is_undefined()) return UndefinedError(right);
  if (left.is_number() && right.is_number()) {
    if (std::isnan(left.real()) || std::isnan(right.real())) return false;
    return Holds(op, CompareNumbers(left, right));
  }
  if (left.is_string() && right.is_string()) {
    INCIPIT_RETURN_IF_ERROR(
        in.heap().ChargeBytes(std::min(left.bytes().size(), right.bytes().size())));
    return Holds(op, left.bytes().compare(right.bytes()));
  }
  if (left.is_sequence() && left.kind() == right.kind()) {
    const auto &a = left.list().items, &b = right.list().items;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      if (a[i].IsSame(b[i])) continue;
      INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, a[i], b[i]));
      if (!equal) return CompareOrder(in, op, a[i], b[i]);
    }
    return Holds(op, a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0);
  }
  return InvalidArgument("'{}' not supported between instances of '{}' and '{}'", Spelling(op),
                         TypeName(left), TypeName(right));
}

}  // namespace

absl::Status UndefinedError(const Value& value) {
  return InvalidArgument("{}", value.undefined().Message());
}

absl::Status CheckHashable(const Value& value) {
  if (IsHashable(value)) return absl::OkStatus();
  return InvalidArgument("unhashable type: '{}'", TypeName(value));
}

absl::StatusOr<bool> IsTrue(Interpreter& in, const Value& value) {
  if (value.is(Kind::kBool)) return value.boolean();
  if (value.is_number()) return value.real() != 0;
  if (value.is_none() || value.is(Kind::kMissing)) return false;
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<int64_t> length, TryLength(in, value));
  return !length || *length != 0;
}

absl::StatusOr<std::optional<int64_t>> TryLength(Interpreter& in, const Value& value) {
  if (value.is_indexable()) return LengthOf(value);
  if (value.is(Kind::kObject)) return value.object().Length(in);
  return std::nullopt;
}

absl::StatusOr<int64_t> Length(Interpreter& in, const Value& value) {
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<int64_t> length, TryLength(in, value));
  if (!length) return InvalidArgument("object of type '{}' has no len()", TypeName(value));
  return *length;
}

absl::StatusOr<Iterator*> TryIterate(Interpreter& in, const Value& value) {
  if (value.is_indexable()) return in.heap().New<ValueIterator>(value);
  if (value.is(Kind::kObject)) return value.object().Iterate(in);
  return value.is(Kind::kIterator) ? &value.iterator() : nullptr;
}

absl::StatusOr<Iterator*> Iterate(Interpreter& in, const Value& value) {
  INCIPIT_ASSIGN_OR_RETURN(Iterator * iterator, TryIterate(in, value));
  if (iterator == nullptr) return InvalidArgument("'{}' object is not iterable", TypeName(value));
  return iterator;
}

absl::StatusOr<std::vector<Value>> ToVector(Interpreter& in, const Value& value) {
  if (value.is_sequence()) {
    INCIPIT_RETURN_IF_ERROR(in.heap().Charge(static_cast<int64_t>(value.list().items.size())));
    return value.list().items;
  }
  INCIPIT_ASSIGN_OR_RETURN(Iterator * iterator, Iterate(in, value));
  std::vector<Value> items;
  while (true) {
    INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, iterator->Next(in));
    if (!item) return items;
    if (items.size() == items.capacity()) {
      INCIPIT_RETURN_IF_ERROR(in.heap().CheckMemory(2 * items.size() * sizeof(Value)));
    }
    items.push_back(std::move(*item));
  }
}

absl::StatusOr<bool> Equal(Interpreter& in, const Value& left, const Value& right) {
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  if (left.is_number() && right.is_number()) {
    if (std::isnan(left.real()) || std::isnan(right.real())) return false;
    return CompareNumbers(left, right) == 0;
  }
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      if (left.bytes().size() != right.bytes().size()) return false;
      INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(left.bytes().size()));
      return left.bytes() == right.bytes();
    case Kind::kList:
    case Kind::kTuple:
      return SequencesEqual(in, left.list(), right.list());
    case Kind::kDict:
      return DictsEqual(in, left.dict(), right.dict());
    case Kind::kRange:
      return RangesEqual(left.range(), right.range());
    default:
      return left.IsSame(right);
  }
}

absl::StatusOr<bool> Less(Interpreter& in, const Value& left, const Value& right) {
  return CompareOrder(in, CompareOp::kLess, left, right);
}

absl::StatusOr<bool> Contains(Interpreter& in, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      return InvalidArgument("'in <string>' requires string as left operand, not {}",
                             TypeName(item));
    }
    INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(container.bytes().size()));
    return memmem(container.bytes().data(), container.bytes().size(), item.bytes().data(),
                  item.bytes().size()) != nullptr;
  }
  const Dict* keys = container.is(Kind::kDict) ? &container.dict() : nullptr;
  if (const auto* view = As<DictView>(container);
      view != nullptr && view->part() == DictPart::kKeys) {
    keys = &view->dict();
  }
  if (keys != nullptr) {
    INCIPIT_RETURN_IF_ERROR(CheckHashable(item));
    return keys->Find(item) != nullptr;
  }
  if (container.is(Kind::kRange) && item.is_integral()) {
    return container.range().Contains(item.integer());
  }
  INCIPIT_ASSIGN_OR_RETURN(Iterator * iterator, TryIterate(in, container));
  if (iterator == nullptr) {
    return InvalidArgument("argument of type '{}' is not iterable", TypeName(container));
  }
  while (true) {
    INCIPIT_ASSIGN_OR_RETURN(const std::optional<Value> candidate, iterator->Next(in));
    if (!candidate) return false;
    if (candidate->IsSame(item)) return true;
    INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, *candidate, item));
    if (equal) return true;
  }
}

absl::StatusOr<bool> Compare(Interpreter& in, CompareOp op, const Value& left, const Value& right) {
  if (op == CompareOp::kEqual || op == CompareOp::kNotEqual) {
    INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, left, right));
    return equal == (op == CompareOp::kEqual);
  }
  if (op == CompareOp::kIn || op == CompareOp::kNotIn) {
    INCIPIT_ASSIGN_OR_RETURN(const bool contains, Contains(in, right, left));
    return contains == (op == CompareOp::kIn);
  }
  return CompareOrder(in, op, left, right);
}

}  // namespace incipit::jinja
