#include "text/jinja/format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/status.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operations.h"
#include "text/jinja/string_ops.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {
namespace {

constexpr int64_t kPrecisionMax = 10'000;  // of a real number's digits

bool IsAlign(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

class SpecParser {
 public:
  SpecParser(std::string_view text, int64_t number_max) : text_(text), number_max_(number_max) {}

  absl::StatusOr<FormatSpec> Run() {
    FormatSpec spec;
    ParseAlignment(spec);
    if (At("+") || At("-") || At(" ")) spec.sign = text_[pos_++];
    spec.alternate = Take('#');
    if (Take('0')) {
      spec.zero = true;
      if (spec.align == '\0') spec.fill = "0";
    }
    INCIPIT_ASSIGN_OR_RETURN(spec.width, ParseNumber());
    if (At(",") || At("_")) spec.grouping = text_[pos_++];
    if (Take('.')) {
      INCIPIT_ASSIGN_OR_RETURN(spec.precision, ParseNumber());
      if (!spec.precision) return InvalidArgument("format specifier missing precision");
    }
    if (pos_ < text_.size()) spec.type = text_[pos_++];
    if (pos_ != text_.size()) return InvalidArgument("invalid format specifier");
    return spec;
  }

 private:
  bool At(std::string_view what) const { return text_.substr(pos_).starts_with(what); }
  bool Take(char c) {
    const bool matches = pos_ < text_.size() && text_[pos_] == c;
    pos_ += matches;
    return matches;
  }

  void ParseAlignment(FormatSpec& spec) {
    if (text_.empty()) return;
    const size_t size = DecodeAt(text_, 0).size;
    if (size < text_.size() && IsAlign(text_[size])) {
      spec.fill = text_.substr(0, size);
      spec.align = text_[size];
      pos_ = size + 1;
    } else if (IsAlign(text_[0])) {
      spec.align = text_[0];
      pos_ = 1;
    }
  }

  absl::StatusOr<std::optional<int64_t>> ParseNumber() {
    const size_t begin = pos_;
    int64_t number = 0;
    while (pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9') {
      number = number * 10 + (text_[pos_++] - '0');
      if (number > number_max_) {
        return InvalidArgument("a width or precision is beyond {} (limit output_bytes_max)",
                               number_max_);
      }
    }
    return pos_ == begin ? std::nullopt : std::optional(number);
  }

  std::string_view text_;
  int64_t number_max_;
  size_t pos_ = 0;
};

std::string Grouped(std::string_view digits, char separator, size_t group) {
  if (separator == '\0') return std::string(digits);
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string result;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % group == 0) result += separator;
    result += digits[i];
  }
  return result + std::string(digits.substr(whole));
}

// sign and prefix, digits; padded as the specification says. Zeros go after the sign.
absl::Status AppendPadded(Interpreter& in, const FormatSpec& spec, std::string_view prefix,
                          std::string_view digits, const Value& number, TextBuilder& out) {
  const Origin origin = number.origin();
  const size_t width = static_cast<size_t>(spec.width.value_or(0));
  const size_t size = prefix.size() + digits.size();
  const size_t padding = width > size ? width - size : 0;
  INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(out.size() + size + padding * spec.fill.size()));
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(size + padding));
  const char align = spec.align != '\0' ? spec.align : spec.zero ? '=' : '>';
  const size_t left = align == '<' ? 0 : align == '^' ? padding / 2 : padding;
  const auto pad = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) out.Append(spec.fill);
  };
  if (align == '=') out.Append(prefix, origin);
  pad(left);
  if (align != '=') out.Append(prefix, origin);
  out.Append(digits, origin);
  pad(padding - left);
  return absl::OkStatus();
}

std::string SignOf(bool negative, char sign) {
  return negative ? "-" : sign == '-' ? "" : std::string(1, sign);
}

// Zeros that fill a width take part in the grouping.
std::string GroupedToWidth(const FormatSpec& spec, std::string digits, size_t prefix_size,
                           size_t group) {
  std::string grouped = Grouped(digits, spec.grouping, group);
  const bool zeros = spec.zero && spec.align == '\0' && spec.grouping != '\0';
  while (zeros && grouped.size() + prefix_size < static_cast<size_t>(spec.width.value_or(0))) {
    digits.insert(digits.begin(), '0');
    grouped = Grouped(digits, spec.grouping, group);
  }
  return grouped;
}

absl::Status AppendInt(Interpreter& in, const Value& value, const FormatSpec& spec,
                       TextBuilder& out) {
  const Int integer = value.integer();
  if (spec.precision) return InvalidArgument("precision not allowed in integer format specifier");
  if (spec.type == 'c') {
    if (integer < 0 || integer > 0x10FFFF) return InvalidArgument("%c arg not in range(0x110000)");
    std::string character;
    AppendUtf8(character, static_cast<uint32_t>(integer));
    FormatSpec left = spec;
    if (left.align == '\0') left.align = '<';
    return AppendPadded(in, left, "", character, value, out);
  }
  INCIPIT_ASSIGN_OR_RETURN(const Int magnitude, integer < 0 ? NegateInt(integer) : integer);
  const bool decimal = spec.type == 'd' || spec.type == 'n' || spec.type == '\0';
  std::string prefix = SignOf(integer < 0, spec.sign);
  if (spec.alternate && !decimal) prefix += {'0', spec.type};
  const std::string digits = GroupedToWidth(spec, IntDigits(magnitude, decimal ? 'd' : spec.type),
                                            prefix.size(), decimal ? 3 : 4);
  return AppendPadded(in, spec, prefix, digits, value, out);
}

absl::Status AppendReal(Interpreter& in, const Value& value, const FormatSpec& spec,
                        TextBuilder& out) {
  double real = value.real();
  char type = spec.type == 'n' ? 'g' : spec.type;
  const bool percent = type == '%';
  if (percent) {
    real *= 100;
    type = 'f';
  }
  const std::string sign = SignOf(std::signbit(real) && !std::isnan(real), spec.sign);
  const double magnitude = std::fabs(real);
  std::string digits;
  if (type == '\0' && !spec.precision) {
    digits = FormatReal(magnitude);
  } else if (type == '\0') {
    // As 'g', but with a digit after the point, and in scientific form one place earlier.
    const int64_t precision = std::max<int64_t>(*spec.precision, 1);
    digits = RealDigits(magnitude, 'g', precision, spec.alternate);
    if (digits.find_first_of(".en") == std::string::npos) {
      digits = static_cast<int64_t>(digits.size()) >= precision && magnitude != 0
                   ? RealDigits(magnitude, 'e', precision - 1, false)
                   : digits + ".0";
      const size_t e = digits.find('e');
      const size_t point = digits.find('.');
      if (e != std::string::npos && point != std::string::npos) {
        size_t last = digits.find_last_not_of('0', e - 1);
        if (last == point) --last;
        digits.erase(last + 1, e - last - 1);
      }
    }
  } else {
    digits = RealDigits(magnitude, type, spec.precision.value_or(6), spec.alternate);
  }
  if (percent) digits += '%';
  return AppendPadded(in, spec, sign, GroupedToWidth(spec, digits, sign.size(), 3), value, out);
}

absl::Status AppendStringSpec(Interpreter& in, const Value& value, const FormatSpec& spec,
                              TextBuilder& out) {
  if (spec.type != '\0' && spec.type != 's') {
    return InvalidArgument("unknown format code '{}' for object of type 'str'", spec.type);
  }
  if (spec.sign != '-' || spec.alternate || spec.grouping != '\0' || spec.align == '=') {
    return InvalidArgument("a sign, '#', grouping or '=' is not allowed in a string format");
  }
  Value text = value;
  if (spec.precision && *spec.precision < static_cast<int64_t>(value.text().num_chars)) {
    INCIPIT_ASSIGN_OR_RETURN(text, Slice(in, value,
                                         {.start = Value::None(),
                                          .stop = Value::Integer(*spec.precision),
                                          .step = Value::None()}));
  }
  INCIPIT_ASSIGN_OR_RETURN(const Value fill, in.heap().MakeString(spec.fill));
  const int64_t width = spec.width.value_or(0);
  const int64_t padding = std::max<int64_t>(width - static_cast<int64_t>(text.text().num_chars), 0);
  const char align = spec.align == '\0' ? '<' : spec.align;
  const int64_t left = align == '<' ? 0 : align == '>' ? padding : padding / 2;
  INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(out.size() + text.bytes().size() +
                                              static_cast<size_t>(padding) * spec.fill.size()));
  for (int64_t i = 0; i < left; ++i) out.Append(fill.text());
  INCIPIT_RETURN_IF_ERROR(AppendString(in, text, out));
  for (int64_t i = left; i < padding; ++i) out.Append(fill.text());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FormatSpec> ParseFormatSpec(Interpreter& in, std::string_view text) {
  return SpecParser(text, static_cast<int64_t>(in.heap().limits().output_bytes_max)).Run();
}

std::string IntDigits(Int magnitude, char type) {
  const unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
  const std::string_view kDigits = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits += kDigits[static_cast<size_t>(magnitude % base)];
    magnitude /= base;
  } while (magnitude != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string RealDigits(double magnitude, char type, int64_t precision, bool alternate) {
  const bool upper = type == 'E' || type == 'F' || type == 'G';
  if (std::isnan(magnitude)) return upper ? "NAN" : "nan";
  if (std::isinf(magnitude)) return upper ? "INF" : "inf";
  const std::string format = std::string(alternate ? "%#.*" : "%.*") + type;
  const int digits = static_cast<int>(std::min(precision, kPrecisionMax));
  const int size = std::snprintf(nullptr, 0, format.c_str(), digits, magnitude);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), digits, magnitude);
  text.pop_back();
  return text;
}

absl::Status AppendFormatted(Interpreter& in, const Value& value, const FormatSpec& spec,
                             TextBuilder& out) {
  if (value.is_string()) return AppendStringSpec(in, value, spec, out);
  constexpr std::string_view kRealTypes = "eEfFgGn%";
  constexpr std::string_view kIntTypes = "bcdoxXn";
  const bool is_real = value.is(Kind::kFloat);
  if (spec.type != '\0' && kRealTypes.find(spec.type) != std::string_view::npos &&
      (is_real || spec.type != 'n')) {
    return AppendReal(in, value, spec, out);
  }
  const bool fits =
      spec.type == '\0' || (!is_real && kIntTypes.find(spec.type) != std::string_view::npos);
  if (!fits) {
    return InvalidArgument("unknown format code '{}' for object of type '{}'", spec.type,
                           TypeName(value));
  }
  return is_real ? AppendReal(in, value, spec, out) : AppendInt(in, value, spec, out);
}

}  // namespace incipit::jinja
