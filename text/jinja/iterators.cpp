#include "text/jinja/iterators.h"

#include "base/status.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {

using Item = absl::StatusOr<std::optional<Value>>;

Item VectorIterator::Next(Interpreter& in) {
  if (pos_ >= items_.size()) return std::optional<Value>();
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  return std::optional(items_[pos_++]);
}

Item ListIterator::Next(Interpreter& in) {
  if (pos_ >= list_.items.size()) return std::optional<Value>();
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  return std::optional(list_.items[pos_++]);
}

Item RangeIterator::Next(Interpreter& in) {
  if (pos_ >= range_.size()) return std::optional<Value>();
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  return std::optional(Value::Integer(range_.At(pos_++)));
}

Item TextIterator::Next(Interpreter& in) {
  if (offset_ >= string_.bytes().size()) return std::optional<Value>();
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  const size_t begin = offset_;
  offset_ += DecodeAt(string_.bytes(), offset_).size;
  TextBuilder builder;
  builder.Append(string_.text(), begin, offset_);
  INCIPIT_ASSIGN_OR_RETURN(Value character, in.heap().Finish(builder, string_.is_markup()));
  return std::optional(std::move(character));
}

Item DictIterator::Next(Interpreter& in) {
  if (pos_ >= dict_.size()) return std::optional<Value>();
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  const Dict::Entry& entry = dict_.entries()[pos_++];
  if (part_ == Part::kKeys) return std::optional(entry.key);
  if (part_ == Part::kValues) return std::optional(entry.value);
  INCIPIT_ASSIGN_OR_RETURN(Value item, in.heap().MakeTuple({entry.key, entry.value}));
  return std::optional(std::move(item));
}

}  // namespace incipit::jinja
