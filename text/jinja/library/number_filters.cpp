// The filters for numbers, such as `abs` and `round`, and the filter `default`.
#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/numbers.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {
namespace {

Result Default(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const bool boolean, args.Truth(in, 2));
  bool replaced = args[0].is_undefined();
  if (!replaced && boolean) {
    INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(in, args[0]));
    replaced = !truth;
  }
  if (!replaced) return args[0];
  if (args.Has(1)) return args[1];
  return in.heap().MakeString("");
}

Result Abs(Interpreter&, Arguments& args) {
  const Value& value = args[0];
  if (value.is(Kind::kFloat)) return Value::Real(std::fabs(value.real()));
  if (!value.is_integral()) {
    return InvalidArgument("bad operand type for abs(): '{}'", TypeName(value));
  }
  return Arithmetic(ArithmeticOp::kMul, value, Value::Integer(value.integer() < 0 ? -1 : 1));
}

// Converts `value` to an integer, like Python's int(value, base). If the conversion fails, as for
// the string "42.23", returns int(float(value)). Returns nullopt if both conversions fail.
absl::StatusOr<std::optional<Int>> ToInt(const Value& value, const Value& base) {
  std::optional<double> real;
  if (value.is_string()) {
    const Int number_base = base.is_integral() ? base.integer() : 1;
    if (number_base == 0 || (number_base >= 2 && number_base <= 36)) {
      INCIPIT_ASSIGN_OR_RETURN(const std::optional<Int> parsed,
                               ParseInt(value.bytes(), static_cast<int>(number_base)));
      if (parsed) return parsed;
    }
    real = ParseReal(value.bytes());
    if (real && std::isinf(*real)) real.reset();
  } else if (value.is_integral()) {
    return std::optional(value.integer());
  } else if (value.is(Kind::kFloat)) {
    real = value.real();
  }
  if (!real || std::isnan(*real)) return std::optional<Int>();
  INCIPIT_ASSIGN_OR_RETURN(const Int truncated, TruncateReal(*real));
  return std::optional(truncated);
}

Result ToIntFilter(Interpreter&, Arguments& args) {
  if (args[0].is_undefined()) return UndefinedError(args[0]);
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<Int> number,
                           ToInt(args[0], args.Get(2, Value::Integer(10))));
  return number ? Value::Integer(*number) : args.Get(1, Value::Integer(0));
}

Result ToFloatFilter(Interpreter&, Arguments& args) {
  const Value& value = args[0];
  if (value.is_undefined()) return UndefinedError(value);
  if (value.is_number()) return Value::Real(value.real());
  if (value.is_string()) {
    if (const std::optional<double> real = ParseReal(value.bytes())) return Value::Real(*real);
  }
  return args.Get(1, Value::Real(0));
}

Result Round(Interpreter& in, Arguments& args) {
  const Value& value = args[0];
  std::string_view method = "common";
  if (args.Has(2)) method = args[2].is_string() ? args[2].bytes() : "";
  if (method != "common" && method != "ceil" && method != "floor") {
    return InvalidArgument("the argument `method` of round() must be common, ceil or floor");
  }
  if (value.is_undefined()) return UndefinedError(value);
  if (!value.is_number()) {
    return InvalidArgument("round() expects a number, not '{}'", TypeName(value));
  }
  if (method == "common") {
    INCIPIT_ASSIGN_OR_RETURN(const Int precision, args.Index(1, 0));
    const int64_t digits = std::clamp<Int>(precision, -1000, 1000);
    if (value.is(Kind::kFloat)) return Value::Real(RoundReal(value.real(), digits));
    INCIPIT_ASSIGN_OR_RETURN(const Int rounded, RoundInt(value.integer(), digits));
    return Value::Integer(rounded);
  }
  INCIPIT_ASSIGN_OR_RETURN(const Value unit, Binary(in, ArithmeticOp::kPow, Value::Integer(10),
                                                    args.Get(1, Value::Integer(0))));
  INCIPIT_ASSIGN_OR_RETURN(const Value scaled, Binary(in, ArithmeticOp::kMul, value, unit));
  if (scaled.is_integral()) return Binary(in, ArithmeticOp::kDiv, scaled, unit);
  const double real = scaled.real();
  INCIPIT_ASSIGN_OR_RETURN(const Int whole,
                           TruncateReal(method == "ceil" ? std::ceil(real) : std::floor(real)));
  return Binary(in, ArithmeticOp::kDiv, Value::Integer(whole), unit);
}

Result FileSize(Interpreter& in, Arguments& args) {
  std::optional<double> bytes;
  if (args[0].is_number()) bytes = args[0].real();
  if (args[0].is_string()) bytes = ParseReal(args[0].bytes());
  if (!bytes || !std::isfinite(*bytes)) {
    return InvalidArgument("filesizeformat() expects a number");
  }
  INCIPIT_ASSIGN_OR_RETURN(const bool binary, args.Truth(in, 1));
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return in.heap().MakeString("1 Byte");
  if (*bytes < base) {
    INCIPIT_ASSIGN_OR_RETURN(const Int whole, TruncateReal(*bytes));
    return in.heap().MakeString(fmt::format("{} Bytes", whole));
  }
  const std::string_view prefixes = binary ? "KMGTPEZY" : "kMGTPEZY";
  double unit = base;
  size_t i = 0;
  while (*bytes >= unit * base && i + 1 < prefixes.size()) {
    unit *= base;
    ++i;
  }
  return in.heap().MakeString(
      fmt::format("{:.1f} {}{}", base * *bytes / (unit * base), prefixes[i], binary ? "iB" : "B"));
}

constexpr NamedBuiltin kNumberFilters[] = {
    {"abs", Abs, 1, {"x"}},
    {"d", Default, 1, {"value", "default_value", "boolean"}},
    {"default", Default, 1, {"value", "default_value", "boolean"}},
    {"filesizeformat", FileSize, 1, {"value", "binary"}},
    {"float", ToFloatFilter, 1, {"value", "default"}},
    {"int", ToIntFilter, 1, {"value", "default", "base"}},
    {"round", Round, 1, {"value", "precision", "method"}},
};

}  // namespace

Builtins NumberFilters() { return kNumberFilters; }

}  // namespace incipit::jinja
