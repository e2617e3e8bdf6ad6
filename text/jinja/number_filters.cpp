// Filters on numbers, and default.
#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operations.h"

namespace incipit::jinja {
namespace {

using Result = absl::StatusOr<Value>;

Result Default(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"default", {"value", "default_value", "boolean"}, 1}, arguments));
  bool replaced = bound[0].is_undefined();
  if (!replaced) {
    INCIPIT_ASSIGN_OR_RETURN(const bool boolean, bound.Truth(in, 2, false));
    if (boolean) {
      INCIPIT_ASSIGN_OR_RETURN(const bool truth, IsTrue(in, bound[0]));
      replaced = !truth;
    }
  }
  if (!replaced) return bound[0];
  if (bound.Find(1) != nullptr) return bound[1];
  return in.heap().MakeString("");
}

Result Abs(Interpreter&, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"abs", {"x"}, 1}, arguments));
  const Value& value = bound[0];
  if (value.is(Kind::kFloat)) return Value::Real(std::fabs(value.real()));
  if (!value.is_integral()) {
    return InvalidArgument("bad operand type for abs(): '{}'", TypeName(value));
  }
  if (value.integer() >= 0) return Value::Integer(value.integer());
  INCIPIT_ASSIGN_OR_RETURN(const Int positive, NegateInt(value.integer()));
  return Value::Integer(positive);
}

// int(value, base) or, for text like "42.23", int(float(value)); nullopt where both fail.
absl::StatusOr<std::optional<Int>> ToInt(const Value& value, const Value* base) {
  if (value.is_string()) {
    const bool has_base = base == nullptr || base->is_integral();
    const Int number_base = base == nullptr ? 10 : has_base ? base->integer() : 0;
    if (has_base && (number_base == 0 || (number_base >= 2 && number_base <= 36))) {
      INCIPIT_ASSIGN_OR_RETURN(const std::optional<Int> parsed,
                               ParseInt(value.bytes(), static_cast<int>(number_base)));
      if (parsed) return parsed;
    }
    const std::optional<double> real = ParseReal(value.bytes());
    if (!real || !std::isfinite(*real)) return std::optional<Int>();
    INCIPIT_ASSIGN_OR_RETURN(const Int truncated, TruncateReal(*real));
    return std::optional(truncated);
  }
  if (value.is_integral()) return std::optional(value.integer());
  if (!value.is(Kind::kFloat) || std::isnan(value.real())) return std::optional<Int>();
  INCIPIT_ASSIGN_OR_RETURN(const Int truncated, TruncateReal(value.real()));
  return std::optional(truncated);
}

Result ToIntFilter(Interpreter&, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"int", {"value", "default", "base"}, 1}, arguments));
  if (bound[0].is_undefined()) return UndefinedError(bound[0]);
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<Int> number, ToInt(bound[0], bound.Find(2)));
  if (number) return Value::Integer(*number);
  return bound.Find(1) == nullptr ? Value::Integer(0) : bound[1];
}

Result ToFloatFilter(Interpreter&, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"float", {"value", "default"}, 1}, arguments));
  const Value& value = bound[0];
  if (value.is_undefined()) return UndefinedError(value);
  if (value.is_number()) return Value::Real(value.real());
  if (value.is_string()) {
    if (const std::optional<double> real = ParseReal(value.bytes())) return Value::Real(*real);
  }
  return bound.Find(1) == nullptr ? Value::Real(0) : bound[1];
}

Result Round(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"round", {"value", "precision", "method"}, 1}, arguments));
  const Value& value = bound[0];
  std::string_view method = "common";
  if (bound.Find(2) != nullptr) method = bound[2].is_string() ? bound[2].bytes() : "";
  if (method != "common" && method != "ceil" && method != "floor") {
    return InvalidArgument("method must be common, ceil or floor");
  }
  if (value.is_undefined()) return UndefinedError(value);
  if (!value.is_number())
    return InvalidArgument("round() expects a number, not '{}'", TypeName(value));
  if (method == "common") {
    INCIPIT_ASSIGN_OR_RETURN(const Int precision, bound.Index(1, 0));
    const int64_t digits = static_cast<int64_t>(std::clamp<Int>(precision, -1000, 1000));
    if (value.is(Kind::kFloat)) return Value::Real(RoundReal(value.real(), digits));
    INCIPIT_ASSIGN_OR_RETURN(const Int rounded, RoundInt(value.integer(), digits));
    return Value::Integer(rounded);
  }
  const Value precision = bound.Find(1) == nullptr ? Value::Integer(0) : bound[1];
  INCIPIT_ASSIGN_OR_RETURN(const Value unit,
                           Binary(in, ArithmeticOp::kPow, Value::Integer(10), precision));
  INCIPIT_ASSIGN_OR_RETURN(const Value scaled, Binary(in, ArithmeticOp::kMul, value, unit));
  const double real = scaled.real();
  Int whole = 0;
  if (scaled.is_integral()) {
    whole = scaled.integer();
  } else {
    INCIPIT_ASSIGN_OR_RETURN(whole,
                             TruncateReal(method == "ceil" ? std::ceil(real) : std::floor(real)));
  }
  return Binary(in, ArithmeticOp::kDiv, Value::Integer(whole), unit);
}

Result FileSize(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"filesizeformat", {"value", "binary"}, 1}, arguments));
  std::optional<double> parsed;
  if (bound[0].is_number()) parsed = bound[0].real();
  if (bound[0].is_string()) parsed = ParseReal(bound[0].bytes());
  if (!parsed || !std::isfinite(*parsed))
    return InvalidArgument("filesizeformat() expects a number");
  INCIPIT_ASSIGN_OR_RETURN(const bool binary, bound.Truth(in, 1, false));
  const double base = binary ? 1024 : 1000;
  if (*parsed == 1) return in.heap().MakeString("1 Byte");
  if (*parsed < base) {
    INCIPIT_ASSIGN_OR_RETURN(const Int bytes, TruncateReal(*parsed));
    return in.heap().MakeString(fmt::format("{} Bytes", bytes));
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  size_t i = 0;
  do {
    unit *= base;
  } while (*parsed >= unit && ++i < kPrefixes.size());
  i = std::min(i, kPrefixes.size() - 1);
  const std::string prefix =
      binary ? fmt::format("{}iB", i == 0 ? 'K' : kPrefixes[i]) : fmt::format("{}B", kPrefixes[i]);
  return in.heap().MakeString(fmt::format("{:.1f} {}", base * *parsed / unit, prefix));
}

constexpr NamedBuiltin kNumberFilters[] = {
    {"abs", Abs},
    {"d", Default},
    {"default", Default},
    {"filesizeformat", FileSize},
    {"float", ToFloatFilter},
    {"int", ToIntFilter},
    {"round", Round},
};

}  // namespace

std::span<const NamedBuiltin> NumberFilters() { return kNumberFilters; }

}  // namespace incipit::jinja
