#include "text/jinja/runtime/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/status.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

// 2^63, which is greater than every Int and is exactly representable as a double.
constexpr double kIntEnd = 9223372036854775808.0;

absl::Status DivisionByZero() { return InvalidArgument("division by zero"); }

absl::StatusOr<Int> IntPower(Int base, Int exponent) {
  Int result = 1;
  while (true) {
    if (exponent % 2 == 1) {
      INCIPIT_ASSIGN_OR_RETURN(result, MultiplyInts(result, base));
    }
    exponent /= 2;
    if (exponent == 0) return result;
    INCIPIT_ASSIGN_OR_RETURN(base, MultiplyInts(base, base));
  }
}

absl::StatusOr<Value> RealPower(double base, double exponent) {
  if (base == 0 && exponent < 0) return DivisionByZero();
  const double result = std::pow(base, exponent);
  if (std::isnan(result) && !std::isnan(base) && !std::isnan(exponent)) {
    return InvalidArgument("the result of ** is a complex number, which is not supported");
  }
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    return InvalidArgument("the result of ** is too large");
  }
  return Value::Real(result);
}

double RealModulo(double left, double right) {
  double result = std::fmod(left, right);
  if (result != 0) {
    if ((right < 0) != (result < 0)) result += right;
  } else {
    result = std::copysign(0.0, right);
  }
  return result;
}

double RealFloorDivide(double left, double right) {
  const double modulo = RealModulo(left, right);
  const double quotient = (left - modulo) / right;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

absl::StatusOr<Int> FloorDivideInts(Int left, Int right) {
  if (right == -1) return MultiplyInts(left, -1);
  const Int quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Int ModuloInts(Int left, Int right) {
  if (right == -1) return 0;
  const Int remainder = left % right;
  return remainder != 0 && (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

absl::StatusOr<Int> IntResult(ArithmeticOp op, Int left, Int right) {
  switch (op) {
    case ArithmeticOp::kAdd:
      return AddInts(left, right);
    case ArithmeticOp::kSub:
      if (Int difference; !__builtin_sub_overflow(left, right, &difference)) return difference;
      return IntegerTooLarge();
    case ArithmeticOp::kMul:
      return MultiplyInts(left, right);
    case ArithmeticOp::kMod:
      return ModuloInts(left, right);
    case ArithmeticOp::kPow:
      return IntPower(left, right);
    default:
      return FloorDivideInts(left, right);
  }
}

absl::StatusOr<Value> IntArithmetic(ArithmeticOp op, Int left, Int right) {
  if (op == ArithmeticOp::kDiv) {
    return Value::Real(
        static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right)));
  }
  if (op == ArithmeticOp::kPow && right < 0) {
    return RealPower(static_cast<double>(left), static_cast<double>(right));
  }
  INCIPIT_ASSIGN_OR_RETURN(const Int result, IntResult(op, left, right));
  return Value::Integer(result);
}

// Removes surrounding white space from `text`, and each underscore between two digits or letters.
// Replaces every decimal digit of Unicode by the ASCII digit of the same value.
std::string NumberText(std::string_view text) {
  std::string mapped;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeAt(text, i);
    const int digit = DecimalValue(c.value);
    AppendUtf8(digit >= 0         ? static_cast<char32_t>('0' + digit)
               : IsSpace(c.value) ? U' '
                                  : char32_t{c.value},
               mapped);
    i += c.size;
  }
  mapped.erase(mapped.find_last_not_of(' ') + 1);
  mapped.erase(0, std::min(mapped.find_first_not_of(' '), mapped.size()));
  std::string result;
  for (size_t i = 0; i < mapped.size(); ++i) {
    const bool between = mapped[i] == '_' && i > 0 && i + 1 < mapped.size() &&
                         DigitValue(mapped[i - 1]) < 36 && DigitValue(mapped[i + 1]) < 36;
    if (!between) result += mapped[i];
  }
  return result;
}

}  // namespace

int DigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

absl::Status IntegerTooLarge() {
  return InvalidArgument("an integer is outside the supported range of 64 bits");
}

absl::StatusOr<Int> AddInts(Int left, Int right) {
  Int sum;
  if (__builtin_add_overflow(left, right, &sum)) return IntegerTooLarge();
  return sum;
}

absl::StatusOr<Int> MultiplyInts(Int left, Int right) {
  Int product;
  if (__builtin_mul_overflow(left, right, &product)) return IntegerTooLarge();
  return product;
}

std::string_view Spelling(ArithmeticOp op) {
  constexpr std::string_view kSpellings[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSpellings[static_cast<size_t>(op)];
}

absl::StatusOr<Value> Arithmetic(ArithmeticOp op, const Value& left, const Value& right) {
  const double a = left.real(), b = right.real();
  const bool divides =
      op == ArithmeticOp::kDiv || op == ArithmeticOp::kFloorDiv || op == ArithmeticOp::kMod;
  if (divides && b == 0) return DivisionByZero();
  if (left.is_integral() && right.is_integral()) {
    return IntArithmetic(op, left.integer(), right.integer());
  }
  switch (op) {
    case ArithmeticOp::kAdd:
      return Value::Real(a + b);
    case ArithmeticOp::kSub:
      return Value::Real(a - b);
    case ArithmeticOp::kMul:
      return Value::Real(a * b);
    case ArithmeticOp::kDiv:
      return Value::Real(a / b);
    case ArithmeticOp::kFloorDiv:
      return Value::Real(RealFloorDivide(a, b));
    case ArithmeticOp::kMod:
      return Value::Real(RealModulo(a, b));
    default:
      return RealPower(a, b);
  }
}

std::string FormatReal(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

absl::StatusOr<Int> TruncateReal(double value) {
  if (std::isnan(value)) return InvalidArgument("cannot convert float NaN to integer");
  if (std::isinf(value)) return InvalidArgument("cannot convert float infinity to integer");
  if (value >= kIntEnd || value < -kIntEnd) return IntegerTooLarge();
  return static_cast<Int>(value);
}

absl::StatusOr<std::optional<Int>> ParseInt(std::string_view text, int base) {
  std::string digits = NumberText(text);
  const bool has_sign = digits.starts_with('-') || digits.starts_with('+');
  const std::string sign = digits.starts_with('-') ? "-" : "";
  digits.erase(0, has_sign);
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const int prefix = letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 0;
    if (prefix != 0 && (base == 0 || base == prefix)) {
      digits.erase(0, 2);
      base = prefix;
    }
  }
  if (base == 0) {
    base = 10;
    if (digits.starts_with('0') && digits.find_first_not_of('0') != std::string::npos) {
      return std::optional<Int>();
    }
  }
  if (digits.empty() || DigitValue(digits[0]) >= base) return std::optional<Int>();
  digits = sign + digits;
  Int value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (end != digits.data() + digits.size()) return std::optional<Int>();
  if (error != std::errc()) return IntegerTooLarge();
  return std::optional(value);
}

std::optional<double> ParseReal(std::string_view text) {
  std::string word = NumberText(text);
  for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  const bool has_sign = word.starts_with('-') || word.starts_with('+');
  const std::string_view magnitude = std::string_view(word).substr(has_sign);
  // strtod() accepts more forms than Python's float(), such as hexadecimal numbers and nan(...).
  // Exclude these forms.
  const bool named = magnitude == "inf" || magnitude == "infinity" || magnitude == "nan";
  const bool plain = magnitude.find_first_not_of("0123456789.e+-") == std::string_view::npos &&
                     !magnitude.starts_with('+') && !magnitude.starts_with('-');
  if (magnitude.empty() || (!named && !plain)) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  return end == word.c_str() + word.size() ? std::optional(value) : std::nullopt;
}

absl::StatusOr<Int> RoundInt(Int value, int64_t num_digits) {
  if (num_digits >= 0) return value;
  if (num_digits < -18) {
    // If the absolute value is above 5 * 10^18, Python's round(value, -19) returns 10^19 or -10^19.
    // An Int cannot represent these numbers.
    constexpr Int kHalf = 5'000'000'000'000'000'000;
    if (num_digits == -19 && (value > kHalf || value < -kHalf)) return IntegerTooLarge();
    return Int{0};
  }
  Int unit = 1;
  for (int64_t i = 0; i < -num_digits; ++i) unit *= 10;
  const Int remainder = ModuloInts(value, unit);
  INCIPIT_ASSIGN_OR_RETURN(const Int floor, AddInts(value, -remainder));
  const bool odd = (floor / unit) % 2 != 0;
  const Int distance = unit - remainder;
  if (remainder > distance || (remainder == distance && odd)) return AddInts(floor, unit);
  return floor;
}

double RoundReal(double value, int64_t num_digits) {
  if (!std::isfinite(value) || num_digits > 323) return value;
  if (num_digits < -308) return std::copysign(0.0, value);
  if (num_digits >= 0) {
    char buffer[700];
    std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(num_digits), value);
    return std::strtod(buffer, nullptr);
  }
  const double unit = std::pow(10.0, static_cast<double>(-num_digits));
  return std::nearbyint(value / unit) * unit;
}

}  // namespace incipit::jinja
