#include "text/jinja/iterators.h"

#include "base/status.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {

absl::StatusOr<std::optional<Value>> ValueIterator::Next(Interpreter& in) {
  if (source_.is_sequence()) {
    const std::vector<Value>& items = source_.list().items;
    if (pos_ >= items.size()) return std::optional<Value>();
    INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
    return std::optional(items[pos_++]);
  }
  if (source_.is(Kind::kDict)) return NextEntry(in);
  if (source_.is_string()) return NextCharacter(in);
  if (!source_.is(Kind::kRange) || static_cast<Int>(pos_) >= source_.range().size()) {
    return std::optional<Value>();
  }
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  return std::optional(Value::Integer(source_.range().At(static_cast<Int>(pos_++))));
}

absl::StatusOr<std::optional<Value>> ValueIterator::NextEntry(Interpreter& in) {
  if (pos_ >= source_.dict().size()) return std::optional<Value>();
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  const Dict::Entry& entry = source_.dict().entries()[pos_++];
  if (part_ == DictPart::kKeys) return std::optional(entry.key);
  if (part_ == DictPart::kValues) return std::optional(entry.value);
  INCIPIT_ASSIGN_OR_RETURN(Value item, in.heap().MakeTuple({entry.key, entry.value}));
  return std::optional(std::move(item));
}

absl::StatusOr<std::optional<Value>> ValueIterator::NextCharacter(Interpreter& in) {
  if (pos_ >= source_.bytes().size()) return std::optional<Value>();
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  const size_t begin = pos_;
  pos_ += DecodeAt(source_.bytes(), pos_).size;
  INCIPIT_ASSIGN_OR_RETURN(Value character, in.heap().Substring(source_, begin, pos_));
  return std::optional(std::move(character));
}

absl::StatusOr<std::optional<Value>> DeferredItems::Next(Interpreter& in) {
  if (!items_) {
    items_.emplace();  // none if making them fails
    // Items that are made of such items are a recursion.
    INCIPIT_RETURN_IF_ERROR(in.Enter());
    INCIPIT_ASSIGN_OR_RETURN(*items_, make_(in));
    in.Leave();
  }
  if (pos_ >= items_->size()) return std::optional<Value>();
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  return std::optional((*items_)[pos_++]);
}

}  // namespace incipit::jinja
