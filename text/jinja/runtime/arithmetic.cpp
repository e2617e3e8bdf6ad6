// The binary operators of templates, and slices of strings and sequences.
#include <algorithm>
#include <limits>

#include "base/status.h"
#include "text/jinja/library/format.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/numbers.h"
#include "text/jinja/runtime/operations.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

absl::Status Unsupported(ArithmeticOp op, const Value& left, const Value& right) {
  return InvalidArgument("unsupported operand type(s) for {}: '{}' and '{}'", Spelling(op),
                         TypeName(left), TypeName(right));
}

// Joins two strings. If exactly one string is marked safe (its text is HTML), first escapes the
// other string. For example, &lt; replaces <.
absl::StatusOr<Value> Concatenate(Interpreter& in, const Value& left, const Value& right) {
  if (!left.is_markup() && !right.is_markup()) return in.heap().Concatenate(left, right);
  TextBuilder builder;
  INCIPIT_RETURN_IF_ERROR(AppendEscaped(in, left, builder));
  INCIPIT_RETURN_IF_ERROR(AppendEscaped(in, right, builder));
  return in.heap().Finish(builder, true);
}

absl::StatusOr<Value> JoinSequences(Interpreter& in, const Value& left, const Value& right) {
  const auto &a = left.list().items, &b = right.list().items;
  INCIPIT_RETURN_IF_ERROR(in.heap().CheckMemory((a.size() + b.size()) * sizeof(Value)));
  std::vector<Value> items;
  items.reserve(a.size() + b.size());
  items.insert(items.end(), a.begin(), a.end());
  items.insert(items.end(), b.begin(), b.end());
  const bool both = left.list().origin == right.list().origin;
  return in.heap().MakeSequence(left.kind(), std::move(items),
                                both ? left.list().origin : Origin::kTemplate);
}

absl::StatusOr<Value> Repeat(Interpreter& in, const Value& value, Int count) {
  Heap& heap = in.heap();
  count = std::max<Int>(count, 0);
  if (value.is_string()) {
    if (value.bytes().empty()) return value;
    const Int size = static_cast<Int>(value.bytes().size());
    const Int size_max = static_cast<Int>(heap.limits().output_bytes_max);
    if (count > size_max / size) return heap.CheckSize(heap.limits().output_bytes_max + 1);
    TextBuilder builder;
    if (!value.text().has_literal()) {
      std::string bytes;
      bytes.reserve(static_cast<size_t>(size * count));
      for (Int i = 0; i < count; ++i) bytes += value.bytes();
      builder.Append(bytes);
    } else {
      for (Int i = 0; i < count; ++i) builder.Append(value.text());
    }
    return heap.Finish(builder, value.is_markup());
  }
  const auto& items = value.list().items;
  std::vector<Value> repeated;
  if (!items.empty()) {
    const Int entries_max = static_cast<Int>(heap.limits().memory_bytes_max / sizeof(Value));
    const Int size = static_cast<Int>(items.size());
    if (count > entries_max / size) return heap.CheckMemory(heap.limits().memory_bytes_max + 1);
    INCIPIT_RETURN_IF_ERROR(heap.CheckMemory(static_cast<size_t>(size * count) * sizeof(Value)));
    INCIPIT_RETURN_IF_ERROR(heap.Charge(static_cast<int64_t>(size * count)));
    repeated.reserve(static_cast<size_t>(size * count));
    for (Int i = 0; i < count; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
  }
  return heap.MakeSequence(value.kind(), std::move(repeated), value.list().origin);
}

// Returns the indices of the items that the slice [start:stop:step] of a sequence with `length`
// items contains, like Python's slice.indices().
absl::StatusOr<Range> ResolveSlice(const Value& start, const Value& stop, const Value& step,
                                   Int length) {
  Range indices;
  if (!step.is_none()) {
    INCIPIT_ASSIGN_OR_RETURN(indices.step, ToIndex(step, "slice step"));
    if (indices.step == 0) return InvalidArgument("slice step cannot be zero");
    // Replace a step of -2^63 by -2^63 + 1: Range::size() negates the step, and 2^63 does not fit
    // into an Int.
    indices.step = std::max(indices.step, -std::numeric_limits<Int>::max());
  }
  const bool forward = indices.step > 0;
  const Int lower = forward ? 0 : -1;
  const Int upper = forward ? length : length - 1;
  const auto bound = [&](const Value& value, Int otherwise) -> absl::StatusOr<Int> {
    if (value.is_none()) return otherwise;
    INCIPIT_ASSIGN_OR_RETURN(Int index, ToIndex(value, "slice index"));
    if (index < 0) index = index < -length ? lower : index + length;
    return std::clamp(index, lower, upper);
  };
  INCIPIT_ASSIGN_OR_RETURN(indices.start, bound(start, forward ? lower : upper));
  INCIPIT_ASSIGN_OR_RETURN(indices.stop, bound(stop, forward ? upper : lower));
  return indices;
}

absl::StatusOr<Value> SliceString(Interpreter& in, const Value& string, const Range& indices) {
  const Text& text = string.text();
  if (indices.step == 1) {
    if (indices.stop <= indices.start) return in.heap().Substring(string, 0, 0);
    const size_t begin = text.OffsetOf(static_cast<size_t>(indices.start));
    const size_t num_chars = static_cast<size_t>(indices.stop - indices.start);
    const size_t end =
        text.is_ascii() ? begin + num_chars : OffsetOfChar(text.bytes, begin, num_chars);
    INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(end));
    return in.heap().Substring(string, begin, end);
  }
  // Byte offset of each character of the string; the last element is the end of the string.
  std::vector<size_t> offsets;
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge(static_cast<int64_t>(text.num_chars / 16)));
  offsets.reserve(text.num_chars + 1);
  for (size_t i = 0; i < text.bytes.size(); i += DecodeAt(text.bytes, i).size) {
    offsets.push_back(i);
  }
  offsets.push_back(text.bytes.size());
  TextBuilder builder;
  const Int size = indices.size();
  for (Int i = 0; i < size; ++i) {
    const size_t index = static_cast<size_t>(indices.At(i));
    builder.Append(text, offsets[index], offsets[index + 1]);
  }
  return in.heap().Finish(builder, string.is_markup());
}

}  // namespace

absl::StatusOr<Int> ToIndex(const Value& value, std::string_view what) {
  if (value.is_undefined()) return UndefinedError(value);
  if (value.is_integral()) return value.integer();
  return InvalidArgument("the {} must be an integer, not '{}'", what, TypeName(value));
}

absl::StatusOr<Value> Binary(Interpreter& in, ArithmeticOp op, const Value& left,
                             const Value& right) {
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  if (left.is_number() && right.is_number()) return Arithmetic(op, left, right);
  if (op == ArithmeticOp::kMod && left.is_string()) return FormatPercent(in, left, right);
  if (left.is_undefined()) return UndefinedError(left);
  if (right.is_undefined()) return UndefinedError(right);
  if (op == ArithmeticOp::kAdd) {
    if (left.is_string() && right.is_string()) return Concatenate(in, left, right);
    if (left.is_sequence() && left.kind() == right.kind()) return JoinSequences(in, left, right);
  }
  if (op == ArithmeticOp::kMul) {
    const auto repeatable = [](const Value& v) { return v.is_string() || v.is_sequence(); };
    if (repeatable(left) && right.is_integral()) return Repeat(in, left, right.integer());
    if (repeatable(right) && left.is_integral()) return Repeat(in, right, left.integer());
  }
  return Unsupported(op, left, right);
}

absl::StatusOr<Value> Slice(Interpreter& in, const Value& object, const Value& start,
                            const Value& stop, const Value& step) {
  if (object.is_undefined()) return UndefinedError(object);
  if (object.is(Kind::kDict)) return InvalidArgument("unhashable type: 'slice'");
  if (!object.is_indexable()) {
    return InvalidArgument("'{}' object is not subscriptable", TypeName(object));
  }
  INCIPIT_ASSIGN_OR_RETURN(const Range indices, ResolveSlice(start, stop, step, LengthOf(object)));
  if (object.is_string()) return SliceString(in, object, indices);
  if (object.is(Kind::kRange)) {
    const Range& range = object.range();
    INCIPIT_ASSIGN_OR_RETURN(const Int by, MultiplyInts(range.step, indices.step));
    return Value::OfRange(in.heap().New<Range>(range.At(indices.start), range.At(indices.stop),
                                               std::max(by, -std::numeric_limits<Int>::max())));
  }
  const auto& items = object.list().items;
  const Int size = indices.size();
  INCIPIT_RETURN_IF_ERROR(in.heap().CheckMemory(static_cast<size_t>(size) * sizeof(Value)));
  std::vector<Value> slice;
  slice.reserve(static_cast<size_t>(size));
  for (Int i = 0; i < size; ++i) slice.push_back(items[static_cast<size_t>(indices.At(i))]);
  return in.heap().MakeSequence(object.kind(), std::move(slice), object.list().origin);
}

}  // namespace incipit::jinja
