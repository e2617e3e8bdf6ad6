#include "text/jinja/builtins.h"

#include <algorithm>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operations.h"
#include "text/jinja/string_ops.h"

namespace incipit::jinja {
namespace {

using Result = absl::StatusOr<Value>;

constexpr std::string_view kRefusedFilters[] = {"pprint", "random",   "striptags",
                                                "urlize", "wordwrap", "xmlattr"};

// A test that takes nothing but the value, as a predicate.
template <bool (*predicate)(const Value&)>
Result Is(Interpreter&, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"test", {"value"}, 1}, arguments));
  return Value::Bool(predicate(bound[0]));
}

bool IsDefined(const Value& v) { return !v.is_undefined(); }
bool IsUndefinedValue(const Value& v) { return v.is_undefined(); }
bool IsNone(const Value& v) { return v.is_none(); }
bool IsBoolean(const Value& v) { return v.is(Kind::kBool); }
bool IsFalse(const Value& v) { return v.is(Kind::kBool) && !v.boolean(); }
bool IsTrueValue(const Value& v) { return v.is(Kind::kBool) && v.boolean(); }
bool IsInteger(const Value& v) { return v.is(Kind::kInt); }
bool IsFloat(const Value& v) { return v.is(Kind::kFloat); }
bool IsNumber(const Value& v) { return v.is_number(); }
bool IsString(const Value& v) { return v.is_string(); }
bool IsMapping(const Value& v) { return v.is(Kind::kDict); }
bool IsEscaped(const Value& v) { return v.is_markup(); }
// Whatever has a length and items by index; undefined values have both.
bool IsSequence(const Value& v) {
  return v.is_undefined() || v.is_string() || v.is_sequence() || v.is(Kind::kDict) ||
         v.is(Kind::kRange);
}
bool IsCallable(const Value& v) {
  return v.is_undefined() || (v.is(Kind::kObject) && v.object().is_callable());
}
bool IsFilterName(const Value& v) {
  return v.is_string() && (FindFilter(v.bytes()) != nullptr || IsRefusedFilter(v.bytes()));
}
bool IsTestName(const Value& v) { return v.is_string() && FindTest(v.bytes()) != nullptr; }

Result IsIterable(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"iterable", {"value"}, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Iterator* iterator, TryIterate(in, bound[0]));
  return Value::Bool(iterator != nullptr);
}

template <bool upper>
Result IsCase(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"lower", {"value"}, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Value text, ToString(in, bound[0]));
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * text.bytes().size()));
  return Value::Bool(HasOnlyCase(text.bytes(), upper));
}

// value % divisor == remainder
Result HasRemainder(Interpreter& in, const Value& value, const Value& divisor, Int remainder) {
  INCIPIT_ASSIGN_OR_RETURN(const Value modulo, Binary(in, ArithmeticOp::kMod, value, divisor));
  INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, modulo, Value::Integer(remainder)));
  return Value::Bool(equal);
}

template <int remainder>
Result IsParity(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"odd", {"value"}, 1}, arguments));
  return HasRemainder(in, bound[0], Value::Integer(2), remainder);
}

Result IsDivisibleBy(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"divisibleby", {"value", "num"}, 2}, arguments));
  return HasRemainder(in, bound[0], bound[1], 0);
}

Result IsSameAs(Interpreter&, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"sameas", {"value", "other"}, 2}, arguments));
  return Value::Bool(bound[0].IsSame(bound[1]));
}

template <CompareOp op>
Result Compares(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"compare", {"a", "b"}, 2, 2}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const bool holds, Compare(in, op, bound[0], bound[1]));
  return Value::Bool(holds);
}

Result IsIn(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"in", {"value", "seq"}, 2}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const bool contains, Contains(in, bound[1], bound[0]));
  return Value::Bool(contains);
}

constexpr NamedBuiltin kTests[] = {
    {"!=", Compares<CompareOp::kNotEqual>},
    {"<", Compares<CompareOp::kLess>},
    {"<=", Compares<CompareOp::kLessEqual>},
    {"==", Compares<CompareOp::kEqual>},
    {">", Compares<CompareOp::kGreater>},
    {">=", Compares<CompareOp::kGreaterEqual>},
    {"boolean", Is<IsBoolean>},
    {"callable", Is<IsCallable>},
    {"defined", Is<IsDefined>},
    {"divisibleby", IsDivisibleBy},
    {"eq", Compares<CompareOp::kEqual>},
    {"equalto", Compares<CompareOp::kEqual>},
    {"escaped", Is<IsEscaped>},
    {"even", IsParity<0>},
    {"false", Is<IsFalse>},
    {"filter", Is<IsFilterName>},
    {"float", Is<IsFloat>},
    {"ge", Compares<CompareOp::kGreaterEqual>},
    {"greaterthan", Compares<CompareOp::kGreater>},
    {"gt", Compares<CompareOp::kGreater>},
    {"in", IsIn},
    {"integer", Is<IsInteger>},
    {"iterable", IsIterable},
    {"le", Compares<CompareOp::kLessEqual>},
    {"lessthan", Compares<CompareOp::kLess>},
    {"lower", IsCase<false>},
    {"lt", Compares<CompareOp::kLess>},
    {"mapping", Is<IsMapping>},
    {"ne", Compares<CompareOp::kNotEqual>},
    {"none", Is<IsNone>},
    {"number", Is<IsNumber>},
    {"odd", IsParity<1>},
    {"sameas", IsSameAs},
    {"sequence", Is<IsSequence>},
    {"string", Is<IsString>},
    {"test", Is<IsTestName>},
    {"true", Is<IsTrueValue>},
    {"undefined", Is<IsUndefinedValue>},
    {"upper", IsCase<true>},
};

Builtin FindIn(std::span<const NamedBuiltin> builtins, std::string_view name) {
  const auto it = std::find_if(builtins.begin(), builtins.end(),
                               [&](const NamedBuiltin& builtin) { return builtin.name == name; });
  return it == builtins.end() ? nullptr : it->function;
}

}  // namespace

Builtin FindFilter(std::string_view name) {
  for (const auto filters :
       {StringFilters(), SequenceFilters(), SelectionFilters(), NumberFilters()}) {
    if (const Builtin found = FindIn(filters, name)) return found;
  }
  return nullptr;
}

Builtin FindTest(std::string_view name) { return FindIn(kTests, name); }

bool IsRefusedFilter(std::string_view name) {
  return std::find(std::begin(kRefusedFilters), std::end(kRefusedFilters), name) !=
         std::end(kRefusedFilters);
}

}  // namespace incipit::jinja
