#include "text/jinja/library/string_ops.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/status.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/operations.h"
#include "text/jinja/runtime/python_characters.h"
#include "text/unicode/case_mapping.h"

namespace incipit::jinja {
namespace {

constexpr uint32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;

// Returns true if the Greek letter sigma at `offset` of `bytes` is the last letter of a word
// (Unicode Standard, section 3.13, condition Final_Sigma).
bool IsFinalSigma(std::string_view bytes, size_t offset) {
  size_t i = offset;
  bool cased_before = false;
  while (i > 0) {
    i = PreviousCharacter(bytes, i);
    const uint32_t c = DecodeAt(bytes, i).value;
    if (IsCaseIgnorable(c)) continue;
    cased_before = IsCased(c);
    break;
  }
  if (!cased_before) return false;
  i = SkipWhile(bytes, offset + DecodeAt(bytes, offset).size, IsCaseIgnorable);
  return i == bytes.size() || !IsCased(DecodeAt(bytes, i).value);
}

CaseMapping MappingFor(CaseOp op, bool is_first, bool after_cased) {
  switch (op) {
    case CaseOp::kUpper:
      return CaseMapping::kUpper;
    case CaseOp::kTitle:
      return after_cased ? CaseMapping::kLower : CaseMapping::kTitle;
    case CaseOp::kCapitalize:
      return is_first ? CaseMapping::kTitle : CaseMapping::kLower;
    case CaseOp::kLower:
      break;
  }
  return CaseMapping::kLower;
}

std::string Reversed(std::string_view text) { return {text.rbegin(), text.rend()}; }

using Ranges = std::vector<ByteRange>;

absl::StatusOr<std::vector<Value>> Substrings(Interpreter& in, const Value& string,
                                              const Ranges& ranges) {
  std::vector<Value> parts;
  INCIPIT_RETURN_IF_ERROR(in.heap().CheckMemory(ranges.size() * sizeof(Value)));
  parts.reserve(ranges.size());
  for (const ByteRange& range : ranges) {
    INCIPIT_RETURN_IF_ERROR(in.heap().Charge());
    INCIPIT_ASSIGN_OR_RETURN(Value part, in.heap().Substring(string, range.begin, range.end));
    parts.push_back(std::move(part));
  }
  return parts;
}

// Splits `bytes` at white space, like Python's str.split(None, splits_max). If `from_right` is
// true, splits like str.rsplit(None, splits_max). Returns the byte ranges of the parts.
Ranges SplitSpace(std::string_view bytes, Int splits_max, bool from_right) {
  Ranges words;
  const size_t words_max = splits_max < 0 ? bytes.size() : static_cast<size_t>(splits_max);
  for (size_t i = SkipWhile(bytes, 0, IsSpace); i < bytes.size();) {
    if (!from_right && words.size() == words_max) {
      words.push_back({i, bytes.size()});
      break;
    }
    const size_t end = SkipWhile(bytes, i, [](uint32_t c) { return !IsSpace(c); });
    words.push_back({i, end});
    i = SkipWhile(bytes, end, IsSpace);
  }
  if (from_right && words.size() > words_max) {
    // The first `rest` words become one part of the result, together with the white space before
    // and between these words.
    const size_t rest = words.size() - words_max;
    words[rest - 1].begin = 0;
    words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>(rest - 1));
  }
  return words;
}

Ranges SplitBy(std::string_view bytes, std::string_view separator, Int splits_max) {
  Ranges ranges;
  size_t begin = 0;
  while (splits_max-- != 0) {
    const std::optional<size_t> found = FindBytes(bytes.substr(begin), separator);
    if (!found) break;
    ranges.push_back({begin, begin + *found});
    begin += *found + separator.size();
  }
  ranges.push_back({begin, bytes.size()});
  return ranges;
}

}  // namespace

absl::Status AppendCase(Interpreter& in, const Text& source, size_t begin, size_t end, CaseOp op,
                        TextBuilder& out) {
  const std::string_view bytes = source.bytes.substr(begin, end - begin);
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(bytes.size() * 8));
  bool after_cased = false;
  for (size_t i = 0; i < bytes.size();) {
    const auto [part_end, origin] = source.PartFrom(begin + i);
    std::string mapped;
    while (i < std::min(part_end - begin, bytes.size())) {
      const CodePoint c = DecodeAt(bytes, i);
      const CaseMapping mapping = MappingFor(op, i == 0, after_cased);
      if (c.value == kCapitalSigma && mapping == CaseMapping::kLower && IsFinalSigma(bytes, i)) {
        AppendUtf8(kFinalSigma, mapped);
      } else {
        AppendMapped(c.value, mapping, mapped);
      }
      after_cased = op == CaseOp::kTitle && IsCased(c.value);
      i += c.size;
    }
    out.Append(mapped, origin);
  }
  return in.heap().CheckSize(out.size());
}

absl::StatusOr<Value> ChangeCase(Interpreter& in, const Value& string, CaseOp op) {
  TextBuilder builder;
  builder.Reserve(string.bytes().size());
  INCIPIT_RETURN_IF_ERROR(AppendCase(in, string.text(), 0, string.bytes().size(), op, builder));
  return in.heap().Finish(builder, string.is_markup());
}

absl::StatusOr<Value> Strip(Interpreter& in, const Value& string, const Value* chars, Side side) {
  const std::string_view bytes = string.bytes();
  std::set<uint32_t> members;
  if (chars != nullptr) {
    INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(chars->bytes().size() * 16));
    for (size_t i = 0; i < chars->bytes().size();) {
      const CodePoint c = DecodeAt(chars->bytes(), i);
      members.insert(c.value);
      i += c.size;
    }
  }
  const auto is_stripped = [&](uint32_t c) {
    return chars == nullptr ? IsSpace(c) : members.contains(c);
  };
  const size_t begin = side == Side::kRight ? 0 : SkipWhile(bytes, 0, is_stripped);
  size_t end = bytes.size();
  while (side != Side::kLeft && end > begin) {
    const size_t previous = PreviousCharacter(bytes, end);
    if (!is_stripped(DecodeAt(bytes, previous).value)) break;
    end = previous;
  }
  return in.heap().Substring(string, begin, end);
}

absl::StatusOr<Value> ReplaceAll(Interpreter& in, const Value& string, const Value& old_text,
                                 const Value& new_text, Int count) {
  const Text& text = string.text();
  const std::string_view bytes = text.bytes, needle = old_text.bytes();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(bytes.size()));
  TextBuilder builder;
  size_t begin = 0;
  size_t search = 0;
  while (count-- != 0 && search <= bytes.size()) {
    const std::optional<size_t> found = FindBytes(bytes.substr(search), needle);
    if (!found) break;
    const size_t at = search + *found;
    builder.Append(text, begin, at);
    builder.Append(new_text.text());
    INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(builder.size()));
    begin = at + needle.size();
    // An empty `needle` matches before every character and at the end of the text. After an empty
    // match, continue at the next character.
    search = !needle.empty()     ? begin
             : at < bytes.size() ? at + DecodeAt(bytes, at).size
                                 : bytes.size() + 1;
  }
  builder.Append(text, begin, bytes.size());
  return in.heap().Finish(builder, string.is_markup());
}

absl::StatusOr<std::vector<Value>> SplitLines(Interpreter& in, const Value& string,
                                              bool keep_ends) {
  const std::string_view bytes = string.bytes();
  Ranges ranges;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t end = SkipWhile(bytes, begin, [](uint32_t c) { return !IsLineBreak(c); });
    size_t next = end == bytes.size() ? end : end + DecodeAt(bytes, end).size;
    if (bytes.substr(end).starts_with("\r\n")) ++next;
    ranges.push_back({begin, keep_ends ? next : end});
    begin = next;
  }
  return Substrings(in, string, ranges);
}

absl::StatusOr<std::vector<Value>> Split(Interpreter& in, const Value& string,
                                         const Value* separator, Int splits_max, bool from_right) {
  const std::string_view bytes = string.bytes();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(bytes.size()));
  if (separator == nullptr) {
    return Substrings(in, string, SplitSpace(bytes, splits_max, from_right));
  }
  if (separator->bytes().empty()) return InvalidArgument("empty separator");
  if (!from_right) return Substrings(in, string, SplitBy(bytes, separator->bytes(), splits_max));
  Ranges ranges = SplitBy(Reversed(bytes), Reversed(separator->bytes()), splits_max);
  for (ByteRange& range : ranges) {
    range = {bytes.size() - range.end, bytes.size() - range.begin};
  }
  std::reverse(ranges.begin(), ranges.end());
  return Substrings(in, string, ranges);
}

std::optional<size_t> FindBytes(std::string_view haystack, std::string_view needle) {
  const void* found = memmem(haystack.data(), haystack.size(), needle.data(), needle.size());
  if (needle.empty()) return 0;
  if (found == nullptr) return std::nullopt;
  return static_cast<size_t>(static_cast<const char*>(found) - haystack.data());
}

bool HasOnlyCase(std::string_view bytes, bool upper) {
  bool cased = false;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = DecodeAt(bytes, i);
    if (IsTitlecase(c.value) || (upper ? IsLowercase(c.value) : IsUppercase(c.value))) return false;
    cased |= upper ? IsUppercase(c.value) : IsLowercase(c.value);
    i += c.size;
  }
  return cased;
}

}  // namespace incipit::jinja
