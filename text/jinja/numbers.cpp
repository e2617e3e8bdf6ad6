#include "text/jinja/numbers.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/status.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {
namespace {

using UInt = unsigned __int128;
constexpr Int kIntMin = static_cast<Int>(UInt{1} << 127);
constexpr double kIntEnd = 1.7014118346046923e38;  // 2^127

absl::Status TooLarge() {
  return InvalidArgument("an integer is outside the supported range of 128 bits");
}

absl::Status DivisionByZero() { return InvalidArgument("division by zero"); }

absl::StatusOr<Value> IntPower(Int base, Int exponent) {
  Int result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1) {
      INCIPIT_ASSIGN_OR_RETURN(result, MultiplyInts(result, base));
    }
    exponent /= 2;
    if (exponent > 0) {
      INCIPIT_ASSIGN_OR_RETURN(base, MultiplyInts(base, base));
    }
  }
  return Value::Integer(result);
}

absl::StatusOr<Value> RealPower(double base, double exponent) {
  if (base == 0 && exponent < 0) return DivisionByZero();
  const double result = std::pow(base, exponent);
  if (std::isnan(result) && !std::isnan(base) && !std::isnan(exponent)) {
    return InvalidArgument("a complex number is not supported");
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

absl::StatusOr<Value> IntArithmetic(ArithmeticOp op, Int left, Int right) {
  absl::StatusOr<Int> result = Int{0};
  switch (op) {
    case ArithmeticOp::kAdd:
      result = AddInts(left, right);
      break;
    case ArithmeticOp::kSub: {
      if (right == kIntMin) return TooLarge();
      result = AddInts(left, -right);
      break;
    }
    case ArithmeticOp::kMul:
      result = MultiplyInts(left, right);
      break;
    case ArithmeticOp::kDiv:
      if (right == 0) return DivisionByZero();
      return Value::Real(
          static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right)));
    case ArithmeticOp::kFloorDiv:
      result = FloorDivideInts(left, right);
      break;
    case ArithmeticOp::kMod:
      result = ModuloInts(left, right);
      break;
    case ArithmeticOp::kPow:
      if (right < 0) return RealPower(static_cast<double>(left), static_cast<double>(right));
      return IntPower(left, right);
  }
  if (!result.ok()) return result.status();
  return Value::Integer(*result);
}

// Text without surrounding space and with every decimal digit as ASCII.
std::string NumberText(std::string_view text) {
  std::string result;
  size_t end = text.size();
  while (end > 0 && IsSpace(DecodeAt(text, PreviousChar(text, end)).value)) {
    end = PreviousChar(text, end);
  }
  bool leading = true;
  for (size_t i = 0; i < end;) {
    const CodePoint c = DecodeAt(text, i);
    i += c.size;
    if (leading && IsSpace(c.value)) continue;
    leading = false;
    const int digit = DecimalValue(c.value);
    if (digit >= 0) {
      result += static_cast<char>('0' + digit);
    } else {
      AppendUtf8(result, c.value);
    }
  }
  return result;
}

int PrefixBase(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 0;
  const char prefix = static_cast<char>(digits[1] | 0x20);
  return prefix == 'b' ? 2 : prefix == 'o' ? 8 : prefix == 'x' ? 16 : 0;
}

// Digits with single underscores between them; appends them without, and moves past them.
bool TakeDigits(std::string_view text, size_t& pos, std::string& out) {
  const size_t begin = pos;
  while (pos < text.size()) {
    const size_t digit = pos + (pos > begin && text[pos] == '_');
    if (digit >= text.size() || text[digit] < '0' || text[digit] > '9') break;
    out += text[digit];
    pos = digit + 1;
  }
  return pos > begin;
}

}  // namespace

int DigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

absl::StatusOr<Int> AddInts(Int left, Int right) {
  const Int sum = static_cast<Int>(static_cast<UInt>(left) + static_cast<UInt>(right));
  if ((left < 0) == (right < 0) && (sum < 0) != (left < 0)) return TooLarge();
  return sum;
}

absl::StatusOr<Int> MultiplyInts(Int left, Int right) {
  if (left == 0 || right == 0) return Int{0};
  if ((left == -1 && right == kIntMin) || (right == -1 && left == kIntMin)) return TooLarge();
  const Int product = static_cast<Int>(static_cast<UInt>(left) * static_cast<UInt>(right));
  if (right == -1 ? product != -left : product / right != left) return TooLarge();
  return product;
}

absl::StatusOr<Int> NegateInt(Int value) {
  if (value == kIntMin) return TooLarge();
  return -value;
}

absl::StatusOr<Int> FloorDivideInts(Int left, Int right) {
  if (right == 0) return DivisionByZero();
  if (right == -1) return NegateInt(left);
  const Int quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

absl::StatusOr<Int> ModuloInts(Int left, Int right) {
  if (right == 0) return DivisionByZero();
  if (right == -1) return Int{0};
  const Int remainder = left % right;
  return remainder != 0 && (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

std::string_view Spelling(ArithmeticOp op) {
  constexpr std::string_view kSpellings[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSpellings[static_cast<size_t>(op)];
}

absl::StatusOr<Value> Arithmetic(ArithmeticOp op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    return IntArithmetic(op, left.integer(), right.integer());
  }
  const double a = left.real(), b = right.real();
  switch (op) {
    case ArithmeticOp::kAdd:
      return Value::Real(a + b);
    case ArithmeticOp::kSub:
      return Value::Real(a - b);
    case ArithmeticOp::kMul:
      return Value::Real(a * b);
    case ArithmeticOp::kDiv:
      if (b == 0) return DivisionByZero();
      return Value::Real(a / b);
    case ArithmeticOp::kFloorDiv:
      if (b == 0) return DivisionByZero();
      return Value::Real(RealFloorDivide(a, b));
    case ArithmeticOp::kMod:
      if (b == 0) return DivisionByZero();
      return Value::Real(RealModulo(a, b));
    case ArithmeticOp::kPow:
      return RealPower(a, b);
  }
  return DivisionByZero();
}

std::string FormatInt(Int value) { return fmt::format("{}", value); }

std::string FormatReal(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string result;
  if (text.front() == '-') {
    result = "-";
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  std::string digits(text.substr(0, e));
  std::erase(digits, '.');
  if (exponent < -4 || exponent >= 16) {
    result += digits[0];
    if (digits.size() > 1) result += "." + digits.substr(1);
    return result + fmt::format("e{}{:02d}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return result + "0." + std::string(-exponent - 1, '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole)
    return result + digits + std::string(whole - digits.size(), '0') + ".0";
  return result + digits.substr(0, whole) + "." + digits.substr(whole);
}

absl::StatusOr<Int> TruncateReal(double value) {
  if (std::isnan(value)) return InvalidArgument("cannot convert float NaN to integer");
  if (std::isinf(value)) return InvalidArgument("cannot convert float infinity to integer");
  if (value >= kIntEnd || value < -kIntEnd) return TooLarge();
  return static_cast<Int>(value);
}

absl::StatusOr<std::optional<Int>> ParseInt(std::string_view text, int base) {
  const std::string number = NumberText(text);
  std::string_view digits = number;
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.remove_prefix(1);
  }
  const int prefix = PrefixBase(digits);
  bool underscore_allowed = false;
  if (prefix != 0 && (base == 0 || base == prefix)) {
    digits.remove_prefix(2);
    base = prefix;
    underscore_allowed = true;
  } else if (base == 0) {
    base = 10;
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of("0_") != digits.npos) {
      return std::optional<Int>();
    }
  }
  if (digits.empty()) return std::optional<Int>();
  Int value = 0;
  for (const char c : digits) {
    if (c == '_') {
      if (!underscore_allowed) return std::optional<Int>();
      underscore_allowed = false;
      continue;
    }
    if (DigitValue(c) >= base) return std::optional<Int>();
    INCIPIT_ASSIGN_OR_RETURN(value, MultiplyInts(value, base));
    INCIPIT_ASSIGN_OR_RETURN(value, AddInts(value, DigitValue(c)));
    underscore_allowed = true;
  }
  if (!underscore_allowed) return std::optional<Int>();
  return std::optional<Int>(negative ? -value : value);
}

std::optional<double> ParseReal(std::string_view text) {
  const std::string number = NumberText(text);
  std::string plain;
  size_t pos = 0;
  if (pos < number.size() && (number[pos] == '-' || number[pos] == '+')) plain += number[pos++];
  std::string word = number.substr(pos);
  for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  if (word == "inf" || word == "infinity" || word == "nan") {
    return std::strtod((plain + word).c_str(), nullptr);
  }
  bool digits = TakeDigits(number, pos, plain);
  if (pos < number.size() && number[pos] == '.') {
    plain += number[pos++];
    digits = TakeDigits(number, pos, plain) || digits;
  }
  if (!digits) return std::nullopt;
  if (pos < number.size() && (number[pos] == 'e' || number[pos] == 'E')) {
    plain += number[pos++];
    if (pos < number.size() && (number[pos] == '-' || number[pos] == '+')) plain += number[pos++];
    if (!TakeDigits(number, pos, plain)) return std::nullopt;
  }
  if (pos != number.size()) return std::nullopt;
  return std::strtod(plain.c_str(), nullptr);
}

absl::StatusOr<Int> RoundInt(Int value, int64_t num_digits) {
  if (num_digits >= 0) return value;
  if (num_digits < -38) return Int{0};
  Int unit = 1;
  for (int64_t i = 0; i < -num_digits; ++i) unit *= 10;
  INCIPIT_ASSIGN_OR_RETURN(const Int remainder, ModuloInts(value, unit));
  const Int floor = value - remainder;
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
