#include "text/jinja/library/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/status.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/numbers.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {
namespace {

// Maximum precision of a formatted float, in digits.
constexpr int64_t kPrecisionMax = 10'000;
constexpr int64_t kNumberMax = int64_t{1} << 40;  // largest number that ParseNumber() returns

// A directive such as %(key)05.2f in a format string.
struct Directive {
  std::optional<ByteRange> key;
  bool left = false;  // true if the directive has the flag `-`: spaces are added on the right
  bool zero = false;  // true if the directive has the flag 0: zeros are added on the left
  std::string plus;   // sign before a number that is not negative: "+", " " or empty
  std::optional<int64_t> width, precision;
  char type = '\0';

  bool IsOneOf(std::string_view types) const { return types.find(type) != std::string_view::npos; }
};

absl::Status RefuseFormat(std::string_view what) {
  return Unimplemented("error in a format string: {} is not supported", what);
}

// Parses the decimal number that begins at `pos` in `text`, and moves `pos` to the end of the
// number. Returns nullopt if no digit is at `pos`. Returns 2^40 instead of any larger number.
std::optional<int64_t> ParseNumber(std::string_view text, size_t& pos) {
  const size_t begin = pos;
  int64_t number = 0;
  for (; pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; ++pos) {
    number = std::min(number * 10 + (text[pos] - '0'), kNumberMax);
  }
  return pos == begin ? std::nullopt : std::optional(number);
}

// Parses a directive such as %5d. `pos` is the position after the percent sign. Moves `pos` to the
// end of the directive.
absl::StatusOr<Directive> ParseDirective(std::string_view format, size_t& pos) {
  const auto at = [&] { return pos < format.size() ? format[pos] : '\0'; };
  Directive directive;
  if (at() == '(') {
    const size_t begin = ++pos;
    for (int depth = 1; depth > 0; ++pos) {
      if (pos >= format.size()) return InvalidArgument("incomplete format key");
      depth += at() == '(' ? 1 : at() == ')' ? -1 : 0;
    }
    directive.key = ByteRange{begin, pos - 1};
  }
  for (; std::string_view("-+ 0").find(at()) != std::string_view::npos; ++pos) {
    if (at() == '-') directive.left = true;
    if (at() == '0') directive.zero = true;
    if (at() == '+' || (at() == ' ' && directive.plus.empty())) directive.plus = at();
  }
  directive.width = ParseNumber(format, pos);
  if (at() == '.') directive.precision = ParseNumber(format, ++pos).value_or(0);
  directive.type = at();
  if (directive.type == '\0') return InvalidArgument("incomplete format");
  if (directive.IsOneOf("#*hlLac")) return RefuseFormat(fmt::format("the '{}'", directive.type));
  if (directive.IsOneOf("diuxXo") && directive.precision) {
    return RefuseFormat("the integer precision %.3d");
  }
  if (!directive.IsOneOf("diuxXosr%eEfFgG")) {
    return InvalidArgument("unsupported format character");
  }
  ++pos;
  if (directive.IsOneOf("iu")) directive.type = 'd';
  return directive;
}

// Converts `magnitude` to text without a sign. `type` is one of d, x, X and o.
std::string IntDigits(uint64_t magnitude, char type) {
  return fmt::format(fmt::runtime(std::string{'{', ':', type, '}'}), magnitude);
}

// Converts `magnitude` to decimal text without a sign. `type` is one of e, E, f, F, g and G.
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

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& in, const Value& format, const Value& arguments)
      : in_(in), format_(format), arguments_(arguments) {}

  absl::StatusOr<Value> Run() {
    const std::string_view bytes = format_.bytes();
    INCIPIT_RETURN_IF_ERROR(in_.heap().ChargeBytes(bytes.size()));
    for (size_t pos = 0; pos < bytes.size();) {
      const size_t percent = std::min(bytes.find('%', pos), bytes.size());
      out_.Append(format_.text(), pos, percent);
      pos = percent + 1;
      if (percent == bytes.size()) break;
      INCIPIT_ASSIGN_OR_RETURN(const Directive directive, ParseDirective(bytes, pos));
      if (directive.type == '%') {
        out_.Append(format_.text(), pos - 1, pos);
        continue;
      }
      INCIPIT_ASSIGN_OR_RETURN(const Value value, NextArgument(directive));
      INCIPIT_RETURN_IF_ERROR(directive.IsOneOf("sr") ? AppendText(value, directive)
                                                      : AppendNumber(value, directive));
    }
    const bool is_tuple = arguments_.is(Kind::kTuple);
    const bool all_used = is_tuple ? num_used_ >= arguments_.list().items.size()
                                   : num_used_ > 0 || IsMappingLike(arguments_);
    if (!all_used) return InvalidArgument("not all arguments converted during string formatting");
    return in_.heap().Finish(out_, format_.is_markup());
  }

 private:
  // Returns true if `value` may stay unused in `format % value`, as in Python. For example, `"text"
  // % {}` is valid, but `"text" % 1` is an error.
  static bool IsMappingLike(const Value& value) {
    return value.is(Kind::kDict) || value.is(Kind::kList) || value.is(Kind::kRange) ||
           value.is_undefined();
  }

  absl::StatusOr<Value> NextArgument(const Directive& directive) {
    if (directive.key) {
      if (!arguments_.is(Kind::kDict)) return InvalidArgument("format requires a mapping");
      INCIPIT_ASSIGN_OR_RETURN(
          const Value key, in_.heap().Substring(format_, directive.key->begin, directive.key->end));
      const Value* found = arguments_.dict().Find(key);
      if (found == nullptr)
        return InvalidArgument("the mapping after % has no value for a key in the format string");
      num_used_ = 1;
      return *found;
    }
    const bool is_tuple = arguments_.is(Kind::kTuple);
    const size_t available = is_tuple ? arguments_.list().items.size() : 1;
    if (num_used_ >= available) return InvalidArgument("not enough arguments for format string");
    ++num_used_;
    return is_tuple ? arguments_.list().items[num_used_ - 1] : arguments_;
  }

  absl::Status AppendText(const Value& value, const Directive& directive) {
    Value text;
    TextBuilder builder;
    if (directive.type == 'r') {
      INCIPIT_RETURN_IF_ERROR(AppendRepr(in_, value, builder));
      INCIPIT_ASSIGN_OR_RETURN(text, in_.heap().Finish(builder));
    } else {
      INCIPIT_ASSIGN_OR_RETURN(text, ToSoftString(in_, value));
    }
    if (format_.is_markup()) {
      INCIPIT_RETURN_IF_ERROR(AppendEscaped(in_, text, builder));
      INCIPIT_ASSIGN_OR_RETURN(text, in_.heap().Finish(builder));
    }
    if (directive.precision) {
      INCIPIT_ASSIGN_OR_RETURN(text, Slice(in_, text, Value::None(),
                                           Value::Integer(*directive.precision), Value::None()));
    }
    return AppendPadded("", text, Origin::kTemplate, directive, false);
  }

  absl::Status AppendNumber(const Value& value, const Directive& directive) {
    if (value.is_undefined()) return UndefinedError(value);
    std::string digits;
    bool negative = false;
    if (directive.IsOneOf("eEfFgG") && value.is_number()) {
      negative = std::signbit(value.real()) && !std::isnan(value.real());
      digits = RealDigits(std::fabs(value.real()), directive.type, directive.precision.value_or(6));
    } else {
      Int integer = 0;
      if (directive.IsOneOf("dxXo") && value.is_integral()) {
        integer = value.integer();
      } else if (directive.type == 'd' && value.is(Kind::kFloat)) {
        INCIPIT_ASSIGN_OR_RETURN(integer, TruncateReal(value.real()));
      } else {
        return InvalidArgument("%{} format: a number is required, not {}", directive.type,
                               TypeName(value));
      }
      negative = integer < 0;
      const auto bits = static_cast<uint64_t>(integer);
      digits = IntDigits(negative ? -bits : bits, directive.type);
    }
    INCIPIT_ASSIGN_OR_RETURN(const Value body, in_.heap().MakeString(digits, value.origin()));
    return AppendPadded(negative ? "-" : directive.plus, body, value.origin(), directive,
                        directive.zero && !directive.left);
  }

  // Appends `sign` and `body`, padded to the width of the directive. The padding is zeros between
  // `sign` and `body` if `zero` is true, and spaces otherwise. `origin` is the source of `sign`:
  // the template or the request.
  absl::Status AppendPadded(std::string_view sign, const Value& body, Origin origin,
                            const Directive& directive, bool zero) {
    const size_t width = static_cast<size_t>(directive.width.value_or(0));
    const size_t num_chars = sign.size() + body.text().num_chars;
    const size_t padding = width > num_chars ? width - num_chars : 0;
    INCIPIT_RETURN_IF_ERROR(
        in_.heap().CheckSize(out_.size() + sign.size() + body.bytes().size() + padding));
    INCIPIT_RETURN_IF_ERROR(in_.heap().ChargeBytes(body.bytes().size() + padding));
    const std::string fill(padding, zero ? '0' : ' ');
    if (!zero && !directive.left) out_.Append(fill);
    out_.Append(sign, origin);
    if (zero) out_.Append(fill);
    out_.Append(body.text());
    if (directive.left) out_.Append(fill);
    return absl::OkStatus();
  }

  Interpreter& in_;
  const Value& format_;
  const Value& arguments_;
  size_t num_used_ = 0;
  TextBuilder out_;
};

}  // namespace

absl::StatusOr<Value> FormatPercent(Interpreter& in, const Value& format, const Value& arguments) {
  return PercentFormatter(in, format, arguments).Run();
}

absl::Status CheckPercentFormat(std::string_view format) {
  for (size_t pos = format.find('%'); pos < format.size(); pos = format.find('%', pos)) {
    INCIPIT_RETURN_IF_ERROR(ParseDirective(format, ++pos).status());
  }
  return absl::OkStatus();
}

}  // namespace incipit::jinja
