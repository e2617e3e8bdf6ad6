#include "text/jinja/library/format.h"

#include <algorithm>

#include "base/status.h"
#include "text/jinja/library/format_spec.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/numbers.h"
#include "text/jinja/runtime/operations.h"
#include "text/jinja/runtime/value_writer.h"

namespace incipit::jinja {
namespace {

absl::Status RefuseFormat(std::string_view what) {
  return Unimplemented("error in a format string: {}", what);
}

absl::StatusOr<Value> Convert(Interpreter& in, const Value& value, char conversion) {
  if (conversion == 's') return ToSoftString(in, value);
  TextBuilder out;
  INCIPIT_RETURN_IF_ERROR(AppendRepr(in, value, out));
  return in.heap().Finish(out);
}

// A directive such as %(key)05.2f in a format string of Python's operator %.
struct PercentDirective {
  std::optional<ByteRange> key;
  FormatSpec spec;
};

// Parses the directive whose percent sign is directly before `pos`, and moves `pos` to the end of
// the directive.
absl::StatusOr<PercentDirective> ParseDirective(std::string_view format, size_t& pos) {
  const auto at = [&] { return pos < format.size() ? format[pos] : '\0'; };
  PercentDirective directive;
  FormatSpec& spec = directive.spec;
  if (at() == '(') {
    const size_t begin = ++pos;
    for (int depth = 1; depth > 0; ++pos) {
      if (pos >= format.size()) return InvalidArgument("incomplete format key");
      depth += at() == '(' ? 1 : at() == ')' ? -1 : 0;
    }
    directive.key = ByteRange{begin, pos - 1};
  }
  spec.align = '>';
  for (; std::string_view("-+ 0").find(at()) != std::string_view::npos && at() != '\0'; ++pos) {
    if (at() == '-') spec.align = '<';
    if (at() == '0') spec.zero = true;
    if (at() == '+' || (at() == ' ' && spec.sign != '+')) spec.sign = at();
  }
  spec.width = ParseFormatNumber(format, pos);
  if (at() == '.') {
    ++pos;
    spec.precision = ParseFormatNumber(format, pos).value_or(0);
  }
  constexpr std::string_view kIntegers = "diuxXo", kOthers = "sr%eEfFgG";
  const char type = at();
  if (type == '\0') return InvalidArgument("incomplete format");
  const bool is_integer = kIntegers.find(type) != std::string_view::npos;
  if (std::string_view("#*hlLac").find(type) != std::string_view::npos) {
    return RefuseFormat(fmt::format("the '{}' is not supported", type));
  }
  if (is_integer && spec.precision)
    return RefuseFormat("the precision of an integer, such as %.3d, is not supported");
  if (!is_integer && kOthers.find(type) == std::string_view::npos) {
    return InvalidArgument("unsupported format character");
  }
  ++pos;
  spec.type = type == 'i' || type == 'u' ? 'd' : type;
  return directive;
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
      INCIPIT_ASSIGN_OR_RETURN(PercentDirective directive, ParseDirective(bytes, pos));
      if (directive.spec.type == '%') {
        out_.Append(format_.text(), pos - 1, pos);
        continue;
      }
      INCIPIT_ASSIGN_OR_RETURN(const Value value, NextArgument(directive));
      INCIPIT_RETURN_IF_ERROR(Append(value, directive.spec));
    }
    const bool is_tuple = arguments_.is(Kind::kTuple);
    const bool all_used = is_tuple ? num_used_ >= arguments_.list().items.size()
                                   : num_used_ > 0 || IsMappingLike(arguments_);
    if (!all_used) return InvalidArgument("not all arguments converted during string formatting");
    return in_.heap().Finish(out_, format_.is_markup());
  }

 private:
  // Returns true if Python's operator % accepts `value` as the mapping for directives such as
  // %(key)s. Python accepts every type that supports value[key], except tuples and strings.
  static bool IsMappingLike(const Value& value) {
    return value.is(Kind::kDict) || value.is(Kind::kList) || value.is(Kind::kRange) ||
           value.is_undefined();
  }

  absl::StatusOr<Value> NextArgument(const PercentDirective& directive) {
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

  absl::Status Append(const Value& value, FormatSpec& spec) {
    if (spec.type == 's' || spec.type == 'r') {
      INCIPIT_ASSIGN_OR_RETURN(Value text, Convert(in_, value, spec.type));
      if (format_.is_markup()) {
        TextBuilder escaped;
        INCIPIT_RETURN_IF_ERROR(AppendEscaped(in_, text, escaped));
        INCIPIT_ASSIGN_OR_RETURN(text, in_.heap().Finish(escaped));
      }
      spec.sign = '-';
      spec.zero = false;
      spec.type = 's';
      return AppendFormatted(in_, text, spec, out_);
    }
    if (value.is_undefined()) return UndefinedError(value);
    if (spec.zero && spec.align != '<') {
      spec.align = '=';
      spec.fill.assign(1, '0');
    }
    const bool is_real = std::string_view("eEfFgG").find(spec.type) != std::string_view::npos;
    if (is_real && value.is_number()) return AppendFormatted(in_, value, spec, out_);
    Int integer = 0;
    if (!is_real && value.is_integral()) {
      integer = value.integer();
    } else if (spec.type == 'd' && value.is(Kind::kFloat)) {
      INCIPIT_ASSIGN_OR_RETURN(integer, TruncateReal(value.real()));
    } else {
      return InvalidArgument("%{} format: a number is required, not {}", spec.type,
                             TypeName(value));
    }
    return AppendFormatted(in_, Value::Integer(integer).WithOrigin(value.origin()), spec, out_);
  }

  Interpreter& in_;
  const Value& format_;
  const Value& arguments_;
  size_t num_used_ = 0;
  TextBuilder out_;
};

// A piece of a format string of str.format(): text, and then a field such as {name} if `has_field`
// is true.
struct BracesPart {
  ByteRange text = {0, 0};
  bool has_field = false;
  std::string_view name;
  char conversion = '\0';
  bool has_spec = false;
  FormatSpec spec;
};

absl::Status ParseField(std::string_view field, BracesPart& part) {
  const size_t name_end = std::min(field.find_first_of("!:"), field.size());
  part.has_field = true;
  part.name = field.substr(0, name_end);
  field.remove_prefix(name_end);
  if (part.name.find_first_of(".[") != std::string_view::npos) {
    return RefuseFormat("an attribute or an index of a field, such as {a.b}, is not supported");
  }
  if (field.starts_with('!')) {
    part.conversion = field.size() > 1 ? field[1] : '\0';
    if (part.conversion == 'a') return RefuseFormat("the field conversion !a is not supported");
    if (part.conversion != 's' && part.conversion != 'r') {
      return InvalidArgument("unknown conversion specifier");
    }
    field.remove_prefix(2);
    if (!field.empty() && field[0] != ':') {
      return InvalidArgument("expected ':' after conversion specifier");
    }
  }
  if (field.size() < 2) return absl::OkStatus();
  part.has_spec = true;
  INCIPIT_ASSIGN_OR_RETURN(part.spec, ParseFormatSpec(field.substr(1)));
  return absl::OkStatus();
}

// Parses the piece of `format` that begins at `pos`: text and the next field, such as {name}. Moves
// `pos` to the end of the piece.
absl::StatusOr<BracesPart> ParsePart(std::string_view format, size_t& pos) {
  BracesPart part;
  const size_t brace = std::min(format.find_first_of("{}", pos), format.size());
  part.text = {pos, brace};
  pos = brace + 1;
  if (brace == format.size()) return part;
  // In a format string, {{ stands for { and }} stands for }.
  if (pos < format.size() && format[pos] == format[brace]) {
    part.text.end = pos++;
    return part;
  }
  if (format[brace] == '}') return InvalidArgument("format string: closing brace without a field");
  const size_t end = format.find_first_of("{}", pos);
  if (end == std::string_view::npos)
    return InvalidArgument("format string: field without closing brace");
  if (format[end] == '{') return RefuseFormat("a field within a field is not supported");
  INCIPIT_RETURN_IF_ERROR(ParseField(format.substr(pos, end - pos), part));
  pos = end + 1;
  return part;
}

class BracesFormatter {
 public:
  BracesFormatter(Interpreter& in, const Arguments& arguments)
      : in_(in), format_(arguments.positional[0]), arguments_(arguments) {}

  absl::StatusOr<Value> Run() {
    INCIPIT_RETURN_IF_ERROR(in_.heap().ChargeBytes(format_.bytes().size()));
    for (size_t pos = 0; pos < format_.bytes().size();) {
      INCIPIT_ASSIGN_OR_RETURN(const BracesPart part, ParsePart(format_.bytes(), pos));
      out_.Append(format_.text(), part.text.begin, part.text.end);
      if (part.has_field) INCIPIT_RETURN_IF_ERROR(AppendField(part));
      INCIPIT_RETURN_IF_ERROR(in_.heap().CheckSize(out_.size()));
    }
    return in_.heap().Finish(out_, format_.is_markup());
  }

 private:
  absl::Status AppendField(const BracesPart& part) {
    INCIPIT_ASSIGN_OR_RETURN(Value value, Argument(part.name));
    if (part.conversion != '\0') {
      INCIPIT_ASSIGN_OR_RETURN(value, Convert(in_, value, part.conversion));
    }
    if (part.has_spec) {
      if (!value.is_string() && !value.is_number()) {
        return InvalidArgument("unsupported format string passed to {}.__format__",
                               TypeName(value));
      }
      if (value.is_markup()) return InvalidArgument("unsupported format specification for Markup");
      TextBuilder formatted;
      INCIPIT_RETURN_IF_ERROR(AppendFormatted(in_, value, part.spec, formatted));
      INCIPIT_ASSIGN_OR_RETURN(value, in_.heap().Finish(formatted));
    }
    return format_.is_markup() ? AppendEscaped(in_, value, out_) : AppendString(in_, value, out_);
  }

  absl::StatusOr<Value> Argument(std::string_view name) {
    const bool is_index = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_index) {
      for (const auto& [key, value] : arguments_.keyword) {
        if (key.bytes() == name) return value;
      }
      return InvalidArgument("format() has no argument for a named field");
    }
    const bool automatic = name.empty();
    if (automatic_ && *automatic_ != automatic) {
      return InvalidArgument("cannot mix manual and automatic field numbering");
    }
    automatic_ = automatic;
    size_t pos = 0;
    const auto index = automatic ? next_++ : static_cast<size_t>(*ParseFormatNumber(name, pos));
    if (index + 1 >= arguments_.positional.size()) {
      return InvalidArgument("replacement index {} out of range for positional args tuple", index);
    }
    return arguments_.positional[index + 1];
  }

  Interpreter& in_;
  const Value& format_;
  const Arguments& arguments_;
  std::optional<bool> automatic_;
  size_t next_ = 0;
  TextBuilder out_;
};

}  // namespace

absl::StatusOr<Value> FormatPercent(Interpreter& in, const Value& format, const Value& arguments) {
  return PercentFormatter(in, format, arguments).Run();
}

absl::StatusOr<Value> FormatBraces(Interpreter& in, Arguments& arguments) {
  return BracesFormatter(in, arguments).Run();
}

absl::Status CheckPercentFormat(std::string_view format) {
  for (size_t pos = format.find('%'); pos < format.size(); pos = format.find('%', pos)) {
    INCIPIT_RETURN_IF_ERROR(ParseDirective(format, ++pos).status());
  }
  return absl::OkStatus();
}

absl::Status CheckBracesFormat(std::string_view format) {
  for (size_t pos = 0; pos < format.size();) {
    INCIPIT_RETURN_IF_ERROR(ParsePart(format, pos).status());
  }
  return absl::OkStatus();
}

}  // namespace incipit::jinja
