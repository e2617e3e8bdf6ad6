#include "text/jinja/runtime/iterators.h"

#include "base/status.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/python_characters.h"

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

// Returns the next item of the generator. Increases the recursion depth during the call, because a
// generator may read its items from another generator.
LazyItems::Item LazyItems::Next(Interpreter& in) {
  INCIPIT_RETURN_IF_ERROR(in.Enter());
  Item item = TryNext(in);
  in.Leave();
  return item;
}

LazyItems::Item LazyItems::TryNext(Interpreter& in) {
  if (std::exchange(done_, true)) return std::optional<Value>();
  if (start_ != nullptr) {
    INCIPIT_ASSIGN_OR_RETURN(produce_, start_(in));
    start_ = nullptr;
    if (produce_ == nullptr) return std::optional<Value>();
  }
  INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, produce_(in));
  done_ = !item;
  return item;
}

}  // namespace incipit::jinja
