#include "text/jinja/library/format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/status.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/numbers.h"
#include "text/jinja/runtime/operations.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

// Maximum precision of a formatted float, in digits.
constexpr int64_t kPrecisionMax = 10'000;
constexpr int64_t kNumberMax = int64_t{1} << 40;  // maximum result of ParseFormatNumber()

bool IsAlign(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

std::string Grouped(std::string_view digits) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string result;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result + std::string(digits.substr(whole));
}

// Appends `prefix` (such as a sign) and `body` to `out`, padded to the width of `spec`. With the
// alignment `=`, the padding is between `prefix` and `body`.
absl::Status AppendPadded(Interpreter& in, const FormatSpec& spec, char default_align,
                          std::string_view prefix, const Value& body, Origin origin,
                          TextBuilder& out) {
  const size_t width = static_cast<size_t>(spec.width.value_or(0));
  const size_t size = prefix.size() + body.text().num_chars;
  const size_t padding = width > size ? width - size : 0;
  INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(out.size() + prefix.size() + body.bytes().size() +
                                              padding * spec.fill.size()));
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(body.bytes().size() + padding));
  const char align = spec.align == '\0' ? default_align : spec.align;
  const size_t left = align == '<' ? 0 : align == '^' ? padding / 2 : padding;
  const auto pad = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) out.Append(spec.fill);
  };
  if (align == '=') out.Append(prefix, origin);
  pad(left);
  if (align != '=') out.Append(prefix, origin);
  out.Append(body.text());
  pad(padding - left);
  return absl::OkStatus();
}

std::string IntDigits(uint64_t magnitude, char type) {
  switch (type) {
    case 'b':
      return fmt::format("{:b}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

// Returns `magnitude` as decimal text without a sign. `type` is the type letter of the format
// specification: e, E, f, F, g or G.
std::string RealDigits(double magnitude, char type, int64_t precision) {
  const bool upper = type == 'E' || type == 'F' || type == 'G';
  if (std::isnan(magnitude)) return upper ? "NAN" : "nan";
  if (std::isinf(magnitude)) return upper ? "INF" : "inf";
  const std::string format = std::string("%.*") + type;
  const int digits = static_cast<int>(std::min(precision, kPrecisionMax));
  const int size = std::snprintf(nullptr, 0, format.c_str(), digits, magnitude);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), digits, magnitude);
  text.pop_back();
  return text;
}

absl::Status AppendNumber(Interpreter& in, const Value& value, const FormatSpec& spec,
                          TextBuilder& out) {
  constexpr std::string_view kRealTypes = "eEfFgG%", kIntTypes = "bdoxX";
  const bool as_real = value.is(Kind::kFloat) ||
                       (spec.type != '\0' && kRealTypes.find(spec.type) != std::string_view::npos);
  if (spec.type != '\0' &&
      (as_real ? kRealTypes : kIntTypes).find(spec.type) == std::string_view::npos) {
    return InvalidArgument("unknown format code '{}' for object of type '{}'", spec.type,
                           TypeName(value));
  }
  std::string digits;
  bool negative = false;
  if (as_real) {
    const double real = value.real() * (spec.type == '%' ? 100 : 1);
    negative = std::signbit(real) && !std::isnan(real);
    if (spec.type != '\0') {
      digits = RealDigits(std::fabs(real), spec.type == '%' ? 'f' : spec.type,
                          spec.precision.value_or(6));
    } else if (spec.precision) {
      return Unimplemented(
          "the format of a float has a precision but no type letter; this is not supported");
    } else {
      digits = FormatReal(std::fabs(real));
    }
    if (spec.type == '%') digits += '%';
  } else {
    if (spec.precision) return InvalidArgument("precision not allowed in integer format specifier");
    const Int integer = value.integer();
    negative = integer < 0;
    digits = IntDigits(negative ? -static_cast<uint64_t>(integer) : static_cast<uint64_t>(integer),
                       spec.type);
  }
  if (spec.grouping) digits = Grouped(digits);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  INCIPIT_ASSIGN_OR_RETURN(const Value body, in.heap().MakeString(digits, value.origin()));
  return AppendPadded(in, spec, spec.zero ? '=' : '>', sign, body, value.origin(), out);
}

absl::Status AppendText(Interpreter& in, Value text, const FormatSpec& spec, TextBuilder& out) {
  if (spec.type != '\0' && spec.type != 's') {
    return InvalidArgument("unknown format code '{}' for object of type 'str'", spec.type);
  }
  if (spec.sign != '-' || spec.grouping || spec.align == '=') {
    return InvalidArgument("a sign, a comma or '=' is not allowed in the format of a string");
  }
  if (spec.precision && *spec.precision < static_cast<int64_t>(text.text().num_chars)) {
    INCIPIT_ASSIGN_OR_RETURN(
        text, Slice(in, text, Value::None(), Value::Integer(*spec.precision), Value::None()));
  }
  return AppendPadded(in, spec, '<', "", text, Origin::kTemplate, out);
}

}  // namespace

std::optional<int64_t> ParseFormatNumber(std::string_view text, size_t& pos) {
  const size_t begin = pos;
  int64_t number = 0;
  for (; pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; ++pos) {
    number = std::min(number * 10 + (text[pos] - '0'), kNumberMax);
  }
  return pos == begin ? std::nullopt : std::optional(number);
}

absl::StatusOr<FormatSpec> ParseFormatSpec(std::string_view text) {
  FormatSpec spec;
  size_t pos = 0;
  const auto at = [&](std::string_view any) {
    return pos < text.size() && any.find(text[pos]) != std::string_view::npos;
  };
  const size_t fill_size = text.empty() ? 0 : DecodeAt(text, 0).size;
  if (fill_size < text.size() && IsAlign(text[fill_size])) {
    spec.fill = text.substr(0, fill_size);
    spec.align = text[fill_size];
    pos = fill_size + 1;
  } else if (!text.empty() && IsAlign(text[0])) {
    spec.align = text[pos++];
  }
  if (at("+- ")) spec.sign = text[pos++];
  if (at("#")) return Unimplemented("the '#' in a format is not supported");
  if (at("0")) {
    ++pos;
    spec.zero = true;
    if (spec.align == '\0') spec.fill.assign(1, '0');
  }
  spec.width = ParseFormatNumber(text, pos);
  if (at("_")) return Unimplemented("the '_' in a format is not supported");
  if (at(",")) {
    ++pos;
    spec.grouping = true;
    if (spec.zero) return Unimplemented("the flag 0 with a comma in a format is not supported");
  }
  if (at(".")) {
    spec.precision = ParseFormatNumber(text, ++pos);
    if (!spec.precision) return InvalidArgument("format specifier missing precision");
  }
  if (at("nc")) return Unimplemented("the type '{}' in a format is not supported", text[pos]);
  if (pos < text.size()) spec.type = text[pos++];
  if (pos != text.size()) return InvalidArgument("invalid format specifier");
  return spec;
}

absl::Status AppendFormatted(Interpreter& in, const Value& value, const FormatSpec& spec,
                             TextBuilder& out) {
  return value.is_string() ? AppendText(in, value, spec, out) : AppendNumber(in, value, spec, out);
}

}  // namespace incipit::jinja
