#include "text/jinja/format.h"

#include <cmath>

#include "base/status.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {
namespace {

// repr() with every character beyond ASCII escaped.
absl::StatusOr<Value> ToAscii(Interpreter& in, const Value& value) {
  TextBuilder repr;
  INCIPIT_RETURN_IF_ERROR(AppendRepr(in, value, repr));
  INCIPIT_ASSIGN_OR_RETURN(const Value string, in.heap().Finish(repr));
  TextBuilder out;
  for (size_t i = 0; i < string.bytes().size();) {
    const CodePoint c = DecodeAt(string.bytes(), i);
    const Origin origin = string.text().IsLiteralAt(i) ? Origin::kRequest : Origin::kTemplate;
    if (c.value < 0x80) {
      out.Append(string.text(), i, i + 1);
    } else if (c.value < 0x100) {
      out.Append(fmt::format("\\x{:02x}", c.value), origin);
    } else if (c.value < 0x10000) {
      out.Append(fmt::format("\\u{:04x}", c.value), origin);
    } else {
      out.Append(fmt::format("\\U{:08x}", c.value), origin);
    }
    i += c.size;
  }
  return in.heap().Finish(out);
}

absl::StatusOr<Value> Convert(Interpreter& in, const Value& value, char conversion) {
  if (conversion == 'a') return ToAscii(in, value);
  if (conversion == 's') return ToSoftString(in, value);
  TextBuilder out;
  INCIPIT_RETURN_IF_ERROR(AppendRepr(in, value, out));
  return in.heap().Finish(out);
}

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& in, const Value& format, const Value& arguments)
      : in_(in), format_(format), arguments_(arguments), bytes_(format.bytes()) {}

  absl::StatusOr<Value> Run() {
    INCIPIT_RETURN_IF_ERROR(in_.heap().ChargeBytes(bytes_.size()));
    while (pos_ < bytes_.size()) {
      const size_t percent = std::min(bytes_.find('%', pos_), bytes_.size());
      out_.Append(format_.text(), pos_, percent);
      pos_ = percent;
      if (pos_ == bytes_.size()) break;
      ++pos_;
      INCIPIT_RETURN_IF_ERROR(ParseDirective());
    }
    const bool is_tuple = arguments_.is(Kind::kTuple);
    const bool all_used = is_tuple ? num_used_ >= arguments_.list().items.size()
                                   : num_used_ > 0 || IsMappingLike(arguments_);
    if (!all_used) return InvalidArgument("not all arguments converted during string formatting");
    return in_.heap().Finish(out_, format_.is_markup());
  }

 private:
  // What Python takes for a mapping here: whatever has items, but no tuple and no string.
  static bool IsMappingLike(const Value& value) {
    return value.is(Kind::kDict) || value.is(Kind::kList) || value.is(Kind::kRange) ||
           value.is_undefined();
  }

  absl::StatusOr<Value> NextArgument() {
    if (named_) return *std::exchange(named_, std::nullopt);
    const bool is_tuple = arguments_.is(Kind::kTuple);
    const size_t available = is_tuple ? arguments_.list().items.size() : 1;
    if (num_used_ >= available) return InvalidArgument("not enough arguments for format string");
    ++num_used_;
    return is_tuple ? arguments_.list().items[num_used_ - 1] : arguments_;
  }

  absl::Status ParseKey() {
    if (pos_ >= bytes_.size() || bytes_[pos_] != '(') return absl::OkStatus();
    const size_t begin = ++pos_;
    for (int depth = 1; depth > 0; ++pos_) {
      if (pos_ >= bytes_.size()) return InvalidArgument("incomplete format key");
      depth += bytes_[pos_] == '(' ? 1 : bytes_[pos_] == ')' ? -1 : 0;
    }
    if (!arguments_.is(Kind::kDict)) return InvalidArgument("format requires a mapping");
    INCIPIT_ASSIGN_OR_RETURN(const Value key, in_.heap().Substring(format_, begin, pos_ - 1));
    const Value* found = arguments_.dict().Find(key);
    if (found == nullptr) return InvalidArgument("the format's mapping has no such key");
    named_ = *found;
    num_used_ = 1;
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<int64_t>> ParseNumber() {
    if (pos_ < bytes_.size() && bytes_[pos_] == '*') {
      ++pos_;
      INCIPIT_ASSIGN_OR_RETURN(const Value argument, NextArgument());
      INCIPIT_ASSIGN_OR_RETURN(const Int number, ToIndex(argument, "width or precision"));
      const Int size_max = static_cast<Int>(in_.heap().limits().output_bytes_max);
      if (number > size_max || number < -size_max) {
        return InvalidArgument("a width or precision is beyond the limit output_bytes_max");
      }
      return std::optional(static_cast<int64_t>(number));
    }
    const size_t begin = pos_;
    while (pos_ < bytes_.size() && bytes_[pos_] >= '0' && bytes_[pos_] <= '9') ++pos_;
    if (pos_ == begin) return std::optional<int64_t>();
    INCIPIT_ASSIGN_OR_RETURN(
        const FormatSpec number,
        ParseFormatSpec(in_, fmt::format(">{}", bytes_.substr(begin, pos_ - begin))));
    return std::optional(number.width.value_or(0));
  }

  absl::Status ParseDirective() {
    INCIPIT_RETURN_IF_ERROR(ParseKey());
    FormatSpec spec;
    spec.align = '>';
    for (; pos_ < bytes_.size(); ++pos_) {
      const char c = bytes_[pos_];
      if (c == '-') {
        spec.align = '<';
      } else if (c == '+') {
        spec.sign = '+';
      } else if (c == ' ') {
        spec.sign = spec.sign == '+' ? '+' : ' ';
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '0') {
        spec.zero = true;
      } else {
        break;
      }
    }
    INCIPIT_ASSIGN_OR_RETURN(spec.width, ParseNumber());
    if (spec.width && *spec.width < 0) {
      spec.align = '<';
      spec.width = -*spec.width;
    }
    if (pos_ < bytes_.size() && bytes_[pos_] == '.') {
      ++pos_;
      INCIPIT_ASSIGN_OR_RETURN(spec.precision, ParseNumber());
      spec.precision = std::max<int64_t>(spec.precision.value_or(0), 0);
    }
    while (pos_ < bytes_.size() &&
           (bytes_[pos_] == 'h' || bytes_[pos_] == 'l' || bytes_[pos_] == 'L')) {
      ++pos_;
    }
    if (pos_ >= bytes_.size()) return InvalidArgument("incomplete format");
    return Append(bytes_[pos_++], spec);
  }

  absl::Status Append(char type, FormatSpec& spec) {
    if (type == '%') {
      out_.Append(format_.text(), pos_ - 1, pos_);
      return absl::OkStatus();
    }
    INCIPIT_ASSIGN_OR_RETURN(const Value value, NextArgument());
    switch (type) {
      case 's':
      case 'r':
      case 'a':
        return AppendText(value, type, spec);
      case 'c':
        return AppendCharacter(value, spec);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return AppendInteger(value, type, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return AppendReal(value, type, spec);
      default:
        return InvalidArgument("unsupported format character");
    }
  }

  absl::Status AppendText(const Value& value, char type, FormatSpec& spec) {
    INCIPIT_ASSIGN_OR_RETURN(Value text, Convert(in_, value, type));
    if (format_.is_markup()) {
      TextBuilder escaped;
      INCIPIT_RETURN_IF_ERROR(AppendEscaped(in_, text, escaped));
      INCIPIT_ASSIGN_OR_RETURN(text, in_.heap().Finish(escaped));
    }
    spec.sign = '-';
    spec.alternate = false;
    return AppendFormatted(in_, text, spec, out_);
  }

  absl::Status AppendCharacter(const Value& value, FormatSpec& spec) {
    if (value.is_string() && value.text().num_chars == 1) return AppendText(value, 's', spec);
    if (!value.is_integral()) return InvalidArgument("%c requires int or char");
    FormatSpec plain;
    plain.align = spec.align;
    plain.width = spec.width;
    plain.type = 'c';
    return AppendFormatted(in_, value, plain, out_);
  }

  void ZeroPadding(FormatSpec& spec) {
    if (!spec.zero || spec.align == '<') return;
    spec.align = '=';
    spec.fill = "0";
  }

  absl::Status AppendInteger(const Value& value, char type, FormatSpec& spec) {
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    Int integer = 0;
    if (value.is_integral()) {
      integer = value.integer();
    } else if (decimal && value.is(Kind::kFloat)) {
      INCIPIT_ASSIGN_OR_RETURN(integer, TruncateReal(value.real()));
    } else if (value.is_undefined()) {
      return UndefinedError(value);
    } else {
      return InvalidArgument("%{} format: a number is required, not {}", type, TypeName(value));
    }
    spec.type = decimal ? 'd' : type;
    ZeroPadding(spec);
    if (spec.precision) {
      // At least so many digits: a width of zeros, within the width asked for.
      FormatSpec digits = spec;
      digits.precision.reset();
      digits.width = *spec.precision + (integer < 0 || spec.sign != '-') +
                     (spec.alternate && !decimal ? 2 : 0);
      digits.align = '=';
      digits.fill = "0";
      TextBuilder padded;
      INCIPIT_RETURN_IF_ERROR(
          AppendFormatted(in_, Value::Integer(integer).WithOrigin(value.origin()), digits, padded));
      INCIPIT_ASSIGN_OR_RETURN(const Value text, in_.heap().Finish(padded));
      FormatSpec outer;
      outer.align = spec.align == '=' ? '>' : spec.align;
      outer.width = spec.width;
      return AppendFormatted(in_, text, outer, out_);
    }
    return AppendFormatted(in_, Value::Integer(integer).WithOrigin(value.origin()), spec, out_);
  }

  absl::Status AppendReal(const Value& value, char type, FormatSpec& spec) {
    if (value.is_undefined()) return UndefinedError(value);
    std::optional<double> real;
    if (value.is_number()) real = value.real();
    if (!real) return InvalidArgument("must be real number, not {}", TypeName(value));
    spec.type = type;
    ZeroPadding(spec);
    return AppendFormatted(in_, Value::Real(*real).WithOrigin(value.origin()), spec, out_);
  }

  Interpreter& in_;
  const Value& format_;
  const Value& arguments_;
  const std::string_view bytes_;
  size_t pos_ = 0;
  size_t num_used_ = 0;
  std::optional<Value> named_;  // the argument that a key chose
  TextBuilder out_;
};

class BracesFormatter {
 public:
  BracesFormatter(Interpreter& in, const Value& format, const Arguments& arguments)
      : in_(in), format_(format), arguments_(arguments) {}

  absl::StatusOr<Value> Run() {
    TextBuilder out;
    INCIPIT_RETURN_IF_ERROR(AppendAll(format_, 2, out));
    return in_.heap().Finish(out, format_.is_markup());
  }

 private:
  // `depth`: how deep fields may still be nested in specifications.
  absl::Status AppendAll(const Value& format, int depth, TextBuilder& out) {
    if (depth < 0) return InvalidArgument("max string recursion exceeded");
    const std::string_view bytes = format.bytes();
    INCIPIT_RETURN_IF_ERROR(in_.heap().ChargeBytes(bytes.size()));
    size_t pos = 0;
    while (pos < bytes.size()) {
      const size_t brace = std::min(bytes.find_first_of("{}", pos), bytes.size());
      out.Append(format.text(), pos, brace);
      if (brace == bytes.size()) break;
      pos = brace + 1;
      if (pos < bytes.size() && bytes[pos] == bytes[brace]) {
        out.Append(format.text(), brace, pos);
        ++pos;
        continue;
      }
      if (bytes[brace] == '}') {
        return InvalidArgument("single '}}' encountered in format string");
      }
      INCIPIT_ASSIGN_OR_RETURN(const size_t end, FieldEnd(bytes, pos));
      INCIPIT_RETURN_IF_ERROR(AppendField(format, {pos, end}, depth, out));
      pos = end + 1;
    }
    return in_.heap().CheckSize(out.size());
  }

  static absl::StatusOr<size_t> FieldEnd(std::string_view bytes, size_t pos) {
    bool in_brackets = false;
    int depth = 1;
    for (; pos < bytes.size(); ++pos) {
      const char c = bytes[pos];
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      if (in_brackets) continue;
      if (c == '{') ++depth;
      if (c == '}' && --depth == 0) return pos;
    }
    return InvalidArgument("expected '}}' before end of string");
  }

  absl::Status AppendField(const Value& format, ByteRange field, int depth, TextBuilder& out) {
    const std::string_view bytes = format.bytes().substr(0, field.end);
    size_t name_end = field.begin;
    bool in_brackets = false;
    for (; name_end < bytes.size(); ++name_end) {
      const char c = bytes[name_end];
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      if (!in_brackets && (c == '!' || c == ':')) break;
      if (c == '{') return InvalidArgument("unexpected '{{' in field name");
    }
    char conversion = '\0';
    size_t spec_begin = name_end;
    if (spec_begin < bytes.size() && bytes[spec_begin] == '!') {
      if (spec_begin + 1 >= bytes.size()) return InvalidArgument("unmatched '{{' in format spec");
      conversion = bytes[spec_begin + 1];
      spec_begin += 2;
      if (spec_begin < bytes.size() && bytes[spec_begin] != ':') {
        return InvalidArgument("expected ':' after conversion specifier");
      }
    }
    if (conversion != '\0' && conversion != 's' && conversion != 'r' && conversion != 'a') {
      return InvalidArgument("unknown conversion specifier");
    }
    INCIPIT_ASSIGN_OR_RETURN(Value value, Resolve(format, {field.begin, name_end}));
    if (conversion != '\0') {
      INCIPIT_ASSIGN_OR_RETURN(value, Convert(in_, value, conversion));
    }
    TextBuilder spec_builder;
    if (spec_begin < bytes.size()) {
      INCIPIT_ASSIGN_OR_RETURN(const Value spec_format,
                               in_.heap().Substring(format, spec_begin + 1, field.end));
      INCIPIT_RETURN_IF_ERROR(AppendAll(spec_format, depth - 1, spec_builder));
    }
    INCIPIT_ASSIGN_OR_RETURN(const Value spec, in_.heap().Finish(spec_builder));
    return AppendValue(value, spec.bytes(), out);
  }

  absl::Status AppendValue(const Value& value, std::string_view spec_text, TextBuilder& out) {
    TextBuilder plain;
    TextBuilder& target = format_.is_markup() ? plain : out;
    if (spec_text.empty()) {
      if (format_.is_markup()) return AppendEscaped(in_, value, out);
      return AppendString(in_, value, target);
    }
    if (!value.is_string() && !value.is_number()) {
      return InvalidArgument("unsupported format string passed to {}.__format__", TypeName(value));
    }
    if (value.is_markup()) return InvalidArgument("unsupported format specification for Markup");
    INCIPIT_ASSIGN_OR_RETURN(const FormatSpec spec, ParseFormatSpec(in_, spec_text));
    INCIPIT_RETURN_IF_ERROR(AppendFormatted(in_, value, spec, target));
    if (!format_.is_markup()) return absl::OkStatus();
    INCIPIT_ASSIGN_OR_RETURN(const Value text, in_.heap().Finish(plain));
    return AppendEscaped(in_, text, out);
  }

  // `name.attribute[index]...` within the format's bytes.
  absl::StatusOr<Value> Resolve(const Value& format, ByteRange name) {
    const std::string_view bytes = format.bytes().substr(0, name.end);
    size_t pos = std::min(bytes.find_first_of(".[", name.begin), bytes.size());
    INCIPIT_ASSIGN_OR_RETURN(Value value, FirstPart(bytes.substr(name.begin, pos - name.begin)));
    while (pos < bytes.size()) {
      const bool attribute = bytes[pos] == '.';
      const size_t begin = pos + 1;
      const size_t end = attribute ? std::min(bytes.find_first_of(".[", begin), bytes.size())
                                   : bytes.find(']', begin);
      if (end == std::string_view::npos) return InvalidArgument("missing ']' in format string");
      if (end == begin) return InvalidArgument("empty attribute in format string");
      INCIPIT_ASSIGN_OR_RETURN(const Value key, in_.heap().Substring(format, begin, end));
      const std::optional<size_t> index = AsIndex(key.bytes());
      if (attribute) {
        INCIPIT_ASSIGN_OR_RETURN(value, GetAttribute(in_, value, key));
      } else {
        INCIPIT_ASSIGN_OR_RETURN(
            value, GetItem(in_, value, index ? Value::Integer(static_cast<Int>(*index)) : key));
      }
      pos = attribute ? end : end + 1;
      if (!attribute && pos < bytes.size() && bytes[pos] != '.' && bytes[pos] != '[') {
        return InvalidArgument("only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static std::optional<size_t> AsIndex(std::string_view text) {
    if (text.empty() || text.size() > 9) return std::nullopt;
    size_t index = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') return std::nullopt;
      index = index * 10 + static_cast<size_t>(c - '0');
    }
    return index;
  }

  absl::StatusOr<Value> FirstPart(std::string_view name) {
    std::optional<size_t> index = AsIndex(name);
    if (index || name.empty()) {
      const bool automatic = name.empty();
      if (automatic_ && *automatic_ != automatic) {
        return InvalidArgument("cannot mix manual and automatic field numbering");
      }
      automatic_ = automatic;
      if (automatic) index = next_++;
      if (*index >= arguments_.positional.size()) {
        return InvalidArgument("replacement index {} out of range for positional args tuple",
                               *index);
      }
      return arguments_.positional[*index];
    }
    for (const auto& [key, value] : arguments_.keyword) {
      if (key.bytes() == name) return value;
    }
    return InvalidArgument("format() has no argument for a named field");
  }

  Interpreter& in_;
  const Value& format_;
  const Arguments& arguments_;
  std::optional<bool> automatic_;
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<Value> FormatPercent(Interpreter& in, const Value& format, const Value& arguments) {
  return PercentFormatter(in, format, arguments).Run();
}

absl::StatusOr<Value> FormatBraces(Interpreter& in, const Value& format,
                                   const Arguments& arguments) {
  return BracesFormatter(in, format, arguments).Run();
}

}  // namespace incipit::jinja
