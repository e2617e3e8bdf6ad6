// The methods of dicts and sequences.
#include <algorithm>

#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/objects.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {
namespace {

Result DictGet(Interpreter&, Arguments& args) {
  INCIPIT_RETURN_IF_ERROR(CheckHashable(args[1]));
  if (const Value* found = args[0].dict().Find(args[1])) return *found;
  return args.Get(2);
}

template <DictPart part>
Result View(Interpreter& in, Arguments& args) {
  return Value::OfObject(in.heap().New<DictView>(args[0].dict(), part));
}

Result SequenceCount(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, args[0]));
  Int count = 0;
  for (const Value& item : items) {
    INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, item, args[1]));
    count += equal;
  }
  return Value::Integer(count);
}

Result SequenceIndex(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, args[0]));
  const Int size = static_cast<Int>(items.size());
  INCIPIT_ASSIGN_OR_RETURN(const Int start, args.Index(2, 0));
  INCIPIT_ASSIGN_OR_RETURN(const Int stop, args.Index(3, size));
  const auto clamp = [&](Int index) {
    return std::clamp<Int>(index < 0 && index >= -size ? index + size : index, 0, size);
  };
  for (Int i = clamp(start); i < clamp(stop); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, items[static_cast<size_t>(i)], args[1]));
    if (equal) return Value::Integer(i);
  }
  return InvalidArgument("index() did not find the value in the {}", TypeName(args[0]));
}

constexpr NamedBuiltin kDictMethods[] = {
    {"get", DictGet, 2, {"self", "key", "default"}, 3},
    {"items", View<DictPart::kItems>, 1, {"self"}, 1},
    {"keys", View<DictPart::kKeys>, 1, {"self"}, 1},
    {"values", View<DictPart::kValues>, 1, {"self"}, 1},
};
constexpr NamedBuiltin kListMethods[] = {
    {"count", SequenceCount, 2, {"self", "value"}, 2},
    {"index", SequenceIndex, 2, {"self", "value", "start", "stop"}, 4},
};

}  // namespace

Builtins DictMethods() { return kDictMethods; }
Builtins ListMethods() { return kListMethods; }

}  // namespace incipit::jinja
