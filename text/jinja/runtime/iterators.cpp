#include "text/jinja/runtime/iterators.h"

#include "base/status.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {

absl::StatusOr<std::optional<Value>> ValueIterator::Next(Interpreter& in) {
  const bool is_string = source_.is_string();
  if (pos_ >= (is_string ? source_.bytes().size() : static_cast<size_t>(LengthOf(source_)))) {
    return std::nullopt;
  }
  INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
  const size_t begin = pos_++;
  if (source_.is_sequence()) return source_.list().items[begin];
  if (source_.is(Kind::kRange)) return Value::Integer(source_.range().At(static_cast<Int>(begin)));
  if (is_string) {
    pos_ = begin + DecodeAt(source_.bytes(), begin).size;
    return in.heap().Substring(source_, begin, pos_);
  }
  const Dict::Entry& entry = source_.dict().entries()[begin];
  if (part_ == DictPart::kItems) return in.heap().MakeTuple({entry.key, entry.value});
  return part_ == DictPart::kKeys ? entry.key : entry.value;
}

// Returns the next item of the generator. Increases the recursion depth during the call, because
// one generator may read the items of another generator.
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
