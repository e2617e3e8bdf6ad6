#include "text/jinja/methods.h"

#include <algorithm>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/objects.h"
#include "text/jinja/operations.h"

namespace incipit::jinja {
namespace {

using Result = absl::StatusOr<Value>;

absl::StatusOr<BoundArguments> NoArguments(std::string_view name, Arguments& arguments) {
  return BoundArguments::Bind({name, {"self"}, 1, 1}, arguments);
}

Result DictGet(Interpreter&, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"get", {"self", "key", "default"}, 2, 3}, arguments));
  if (!IsHashable(bound[1])) return InvalidArgument("unhashable type: '{}'", TypeName(bound[1]));
  if (const Value* found = bound[0].dict().Find(bound[1])) return *found;
  return bound.Find(2) == nullptr ? Value::None() : bound[2];
}

template <DictView::Part part>
Result DictPart(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound, NoArguments("view", arguments));
  return Value::OfObject(in.heap().New<DictView>(bound[0].dict(), part));
}

Result Copy(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound, NoArguments("copy", arguments));
  if (bound[0].is(Kind::kDict)) {
    const Dict& original = bound[0].dict();
    INCIPIT_ASSIGN_OR_RETURN(Dict * dict, in.heap().NewDict(original.size()));
    for (const Dict::Entry& entry : original.entries()) dict->Set(entry.key, entry.value);
    dict->origin = original.origin;
    return in.heap().Finish(dict);
  }
  return in.heap().MakeList(bound[0].list().items, bound[0].list().origin);
}

Result SequenceCount(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"count", {"self", "value"}, 2, 2}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, bound[0]));
  Int count = 0;
  for (const Value& item : items) {
    INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, item, bound[1]));
    count += equal;
  }
  return Value::Integer(count);
}

Result SequenceIndex(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"index", {"self", "value", "start", "stop"}, 2, 4}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, bound[0]));
  const Int size = static_cast<Int>(items.size());
  INCIPIT_ASSIGN_OR_RETURN(Int start, bound.Index(2, 0));
  INCIPIT_ASSIGN_OR_RETURN(Int stop, bound.Index(3, size));
  const auto clamp = [&](Int index) {
    return std::clamp<Int>(index < 0 && index >= -size ? index + size : index, 0, size);
  };
  stop = clamp(stop);
  for (Int i = clamp(start); i < stop; ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, items[static_cast<size_t>(i)], bound[1]));
    if (equal) return Value::Integer(i);
  }
  return InvalidArgument("the value is not in the {}", TypeName(bound[0]));
}

Result IntBitLength(Interpreter&, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound, NoArguments("bit_length", arguments));
  Int length = 0;
  for (Int value = bound[0].integer(); value != 0; value /= 2) ++length;
  return Value::Integer(length);
}

Result Conjugate(Interpreter&, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound, NoArguments("conjugate", arguments));
  if (bound[0].is(Kind::kFloat)) return bound[0];
  return Value::Integer(bound[0].integer());
}

Result RealIsInteger(Interpreter&, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound, NoArguments("is_integer", arguments));
  const absl::StatusOr<Int> truncated = TruncateReal(bound[0].real());
  if (!truncated.ok()) return Value::Bool(std::abs(bound[0].real()) < 1e308 * 10);
  return Value::Bool(static_cast<double>(*truncated) == bound[0].real());
}

constexpr NamedBuiltin kDictMethods[] = {
    {"get", DictGet},
    {"keys", DictPart<DictView::Part::kKeys>},
    {"values", DictPart<DictView::Part::kValues>},
    {"items", DictPart<DictView::Part::kItems>},
    {"copy", Copy},
    {"fromkeys", nullptr},
    {"clear", nullptr},
    {"pop", nullptr},
    {"popitem", nullptr},
    {"setdefault", nullptr},
    {"update", nullptr},
};
constexpr NamedBuiltin kListMethods[] = {
    {"count", SequenceCount}, {"index", SequenceIndex}, {"copy", Copy},      {"append", nullptr},
    {"clear", nullptr},       {"extend", nullptr},      {"insert", nullptr}, {"pop", nullptr},
    {"remove", nullptr},      {"reverse", nullptr},     {"sort", nullptr},
};
constexpr NamedBuiltin kTupleMethods[] = {{"count", SequenceCount}, {"index", SequenceIndex}};
constexpr NamedBuiltin kIntMethods[] = {
    {"bit_length", IntBitLength}, {"conjugate", Conjugate}, {"as_integer_ratio", nullptr},
    {"bit_count", nullptr},       {"from_bytes", nullptr},  {"to_bytes", nullptr},
};
constexpr NamedBuiltin kFloatMethods[] = {
    {"is_integer", RealIsInteger}, {"conjugate", Conjugate}, {"as_integer_ratio", nullptr},
    {"fromhex", nullptr},          {"hex", nullptr},
};
constexpr NamedBuiltin kIteratorMethods[] = {
    {"send", nullptr}, {"throw", nullptr}, {"close", nullptr}};

const NamedBuiltin* FindIn(std::span<const NamedBuiltin> methods, std::string_view name) {
  const auto it = std::find_if(methods.begin(), methods.end(),
                               [&](const NamedBuiltin& method) { return method.name == name; });
  return it == methods.end() ? nullptr : &*it;
}

}  // namespace

const NamedBuiltin* FindMethod(Kind self, std::string_view name) {
  switch (self) {
    case Kind::kString:
      for (const auto methods : {StringMethods(), StringSearchMethods(), StringTestMethods()}) {
        if (const NamedBuiltin* found = FindIn(methods, name)) return found;
      }
      return nullptr;
    case Kind::kDict:
      return FindIn(kDictMethods, name);
    case Kind::kList:
      return FindIn(kListMethods, name);
    case Kind::kTuple:
    case Kind::kRange:
      return FindIn(kTupleMethods, name);
    case Kind::kBool:
    case Kind::kInt:
      return FindIn(kIntMethods, name);
    case Kind::kFloat:
      return FindIn(kFloatMethods, name);
    case Kind::kIterator:
      return FindIn(kIteratorMethods, name);
    default:
      return nullptr;
  }
}

bool IsMutatingMethod(Kind self, std::string_view name) {
  constexpr std::string_view kDictNames[] = {"clear", "pop", "popitem", "setdefault", "update"};
  constexpr std::string_view kListNames[] = {"append", "clear", "pop",    "reverse",
                                             "insert", "sort",  "extend", "remove"};
  const auto contains = [&](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (self == Kind::kDict) return contains(kDictNames);
  return self == Kind::kList && contains(kListNames);
}

bool IsSpecialAttribute(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "__class__",   "__delattr__", "__dir__",           "__doc__",         "__eq__",
      "__format__",  "__ge__",      "__getattribute__",  "__getstate__",    "__gt__",
      "__hash__",    "__init__",    "__init_subclass__", "__le__",          "__lt__",
      "__ne__",      "__new__",     "__reduce__",        "__reduce_ex__",   "__repr__",
      "__setattr__", "__sizeof__",  "__str__",           "__subclasshook__"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace incipit::jinja
