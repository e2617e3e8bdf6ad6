// The tests of Jinja2. A test is written after `is` in an expression, such as `x is defined`.
#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/library/string_ops.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {
namespace {

template <bool (*predicate)(const Value&)>
Result Is(Interpreter&, Arguments& args) {
  return Value::Bool(predicate(args[0]));
}

template <Kind... kinds>
bool IsOf(const Value& v) {
  return (v.is(kinds) || ...);
}
// As in Jinja2, the test `sequence` is also true for dicts, strings and undefined values.
bool IsIndexable(const Value& v) { return v.is_indexable(); }
bool IsDefined(const Value& v) { return !v.is_undefined(); }
bool IsFalse(const Value& v) { return v.is(Kind::kBool) && !v.boolean(); }
bool IsTrueValue(const Value& v) { return v.is(Kind::kBool) && v.boolean(); }
bool IsEscaped(const Value& v) { return v.is_markup(); }
bool IsCallable(const Value& v) {
  return v.is_undefined() || (v.is(Kind::kObject) && v.object().is_callable());
}
bool IsFilterName(const Value& v) { return v.is_string() && FindFilter(v.bytes()) != nullptr; }
bool IsTestName(const Value& v) { return v.is_string() && FindTest(v.bytes()) != nullptr; }

Result IsIterable(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Iterator* iterator, TryIterate(in, args[0]));
  return Value::Bool(iterator != nullptr);
}

template <bool upper>
Result IsCase(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value text, ToString(in, args[0]));
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * text.bytes().size()));
  return Value::Bool(HasOnlyCase(text.bytes(), upper));
}

Result HasRemainder(Interpreter& in, const Value& value, const Value& divisor, Int remainder) {
  INCIPIT_ASSIGN_OR_RETURN(const Value modulo, Binary(in, ArithmeticOp::kMod, value, divisor));
  INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, modulo, Value::Integer(remainder)));
  return Value::Bool(equal);
}

template <int remainder>
Result IsParity(Interpreter& in, Arguments& args) {
  return HasRemainder(in, args[0], Value::Integer(2), remainder);
}

Result IsDivisibleBy(Interpreter& in, Arguments& args) {
  return HasRemainder(in, args[0], args[1], 0);
}

Result IsSameAs(Interpreter&, Arguments& args) { return Value::Bool(args[0].IsSame(args[1])); }

template <CompareOp op>
Result Compares(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const bool holds, Compare(in, op, args[0], args[1]));
  return Value::Bool(holds);
}

constexpr NamedBuiltin Simple(std::string_view name, decltype(NamedBuiltin::function) function) {
  return {name, function, 1, {"value"}};
}
template <CompareOp op>
constexpr NamedBuiltin Comparison(std::string_view name) {
  return {name, Compares<op>, 2, {"a", "b"}, 2};
}

constexpr NamedBuiltin kTests[] = {
    Simple("boolean", Is<IsOf<Kind::kBool>>),
    Simple("callable", Is<IsCallable>),
    Simple("defined", Is<IsDefined>),
    {"divisibleby", IsDivisibleBy, 2, {"value", "num"}},
    Comparison<CompareOp::kEqual>("eq"),
    Comparison<CompareOp::kEqual>("equalto"),
    Comparison<CompareOp::kEqual>("=="),
    Simple("escaped", Is<IsEscaped>),
    Simple("even", IsParity<0>),
    Simple("false", Is<IsFalse>),
    Simple("filter", Is<IsFilterName>),
    Simple("float", Is<IsOf<Kind::kFloat>>),
    Comparison<CompareOp::kGreaterEqual>("ge"),
    Comparison<CompareOp::kGreaterEqual>(">="),
    Comparison<CompareOp::kGreater>("gt"),
    Comparison<CompareOp::kGreater>("greaterthan"),
    Comparison<CompareOp::kGreater>(">"),
    {"in", Compares<CompareOp::kIn>, 2, {"value", "seq"}},
    Simple("integer", Is<IsOf<Kind::kInt>>),
    Simple("iterable", IsIterable),
    Comparison<CompareOp::kLessEqual>("le"),
    Comparison<CompareOp::kLessEqual>("<="),
    Simple("lower", IsCase<false>),
    Comparison<CompareOp::kLess>("lt"),
    Comparison<CompareOp::kLess>("lessthan"),
    Comparison<CompareOp::kLess>("<"),
    Simple("mapping", Is<IsOf<Kind::kDict>>),
    Comparison<CompareOp::kNotEqual>("ne"),
    Comparison<CompareOp::kNotEqual>("!="),
    Simple("none", Is<IsOf<Kind::kNone>>),
    Simple("number", Is<IsOf<Kind::kBool, Kind::kInt, Kind::kFloat>>),
    Simple("odd", IsParity<1>),
    {"sameas", IsSameAs, 2, {"value", "other"}},
    Simple("sequence", Is<IsIndexable>),
    Simple("string", Is<IsOf<Kind::kString>>),
    Simple("test", Is<IsTestName>),
    Simple("true", Is<IsTrueValue>),
    Simple("undefined", Is<IsOf<Kind::kUndefined>>),
    Simple("upper", IsCase<true>),
};

}  // namespace

Builtins Tests() { return kTests; }

}  // namespace incipit::jinja
