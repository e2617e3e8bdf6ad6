// Parses character classes (such as [a-z]) and character escapes (such as \n) in regular
// expressions.
#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "text/regex/regex_parser.h"
#include "text/unicode/unicode_properties.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

char32_t FoldOf(char32_t character) {
  return static_cast<char32_t>(
      utf8proc_tolower(utf8proc_toupper(static_cast<utf8proc_int32_t>(character))));
}

// All code points with both an upper-case and a lower-case form are less than kCasedEnd.
constexpr char32_t kCasedEnd = 0x1E944;

}  // namespace

CodePointSet CaseFolding::Fold(const CodePointSet& set) {
  if (groups_.empty()) {
    std::map<char32_t, std::vector<char32_t>> by_fold;
    for (char32_t c = 0; c < kCasedEnd; ++c) {
      if (const char32_t fold = FoldOf(c); fold != c) by_fold[fold].push_back(c);
    }
    for (auto& [fold, group] : by_fold) {
      group.push_back(fold);
      groups_.push_back(std::move(group));
    }
  }
  CodePointSet result = set;
  for (const std::vector<char32_t>& group : groups_) {
    if (!std::ranges::any_of(group, [&](char32_t c) { return set.Contains(c); })) continue;
    for (const char32_t c : group) result.Add(c, c);
  }
  return result;
}

// Parses a character class such as [a-z], from the position after its opening bracket to the
// position after its closing bracket.
absl::StatusOr<CodePointSet> RegexParser::ParseClass() {
  if (++depth_ > kRegexDepthMax) {
    return NotSupported(fmt::format("more than {} nested classes", kRegexDepthMax));
  }
  const bool negative = Take("^");
  // Intersection of the operands of the operator &&, as in the character class [a-z&&[^b]].
  std::optional<CodePointSet> common;
  bool is_first = true;
  do {
    CodePointSet part;
    while (!Looking("&&") && (is_first || !Looking("]"))) {
      if (AtEnd()) return Wrong("a character class has no closing bracket");
      is_first = false;
      INCIPIT_ASSIGN_OR_RETURN(const CodePointSet items, ParseClassItems());
      part.Add(items);
    }
    is_first = false;
    if (common) {
      common->IntersectWith(part);
    } else {
      common = std::move(part);
    }
  } while (Take("&&"));
  ++position_;
  --depth_;
  CodePointSet set = flags_.ignore_case ? case_folding_.Fold(*common) : *std::move(common);
  if (negative) set.Invert();
  return set;
}

// Parses one item of a character class: a character, a range such as a-z, a nested class, or a
// POSIX bracket such as [:alpha:].
absl::StatusOr<CodePointSet> RegexParser::ParseClassItems() {
  if (Looking("[:")) {
    INCIPIT_ASSIGN_OR_RETURN(auto posix, ParsePosixBracket());
    if (posix) return *std::move(posix);
  }
  if (Take("[")) return ParseClass();
  INCIPIT_ASSIGN_OR_RETURN(ClassItem item, ParseClassItem());
  const bool is_range = Looking("-") && !Looking("-]") && position_ + 1 < pattern_.size();
  if (is_range) {
    INCIPIT_ASSIGN_OR_RETURN(item, ParseRange(std::move(item)));
  }
  return std::move(item.set);
}

absl::StatusOr<RegexParser::ClassItem> RegexParser::ParseRange(ClassItem first) {
  if (!first.character)
    return Wrong("a character range begins with a set of characters such as \\d");
  Take("-");
  if (Looking("[") || Looking("&&"))
    return NotSupported("a character range must end with a character, not with [ or &&");
  INCIPIT_ASSIGN_OR_RETURN(const ClassItem last, ParseClassItem());
  if (!last.character) return Wrong("a character range ends with a set of characters such as \\d");
  if (*last.character < *first.character) return Wrong("the end of a range is before its start");
  ClassItem range{.set = CodePointSet({{*first.character, *last.character}})};
  // A hyphen directly after a range is an ordinary character: [a-z-9] contains a to z, the hyphen,
  // and 9.
  if (Looking("-") && !Looking("-]")) {
    Take("-");
    range.set.Add('-', '-');
  }
  return range;
}

absl::StatusOr<RegexParser::ClassItem> RegexParser::ParseClassItem() {
  if (AtEnd()) return Wrong("a character class has no closing bracket");
  char32_t character = 0;
  if (Take("\\")) {
    if (AtEnd()) return Wrong("the expression ends with a backslash");
    INCIPIT_ASSIGN_OR_RETURN(auto set, ParseClassEscape());
    if (set) return ClassItem{.set = *std::move(set)};
    if (Looking("R") || Looking("X") || Looking("N")) {
      return NotSupported(fmt::format("\\{} in a class", pattern_[position_]));
    }
    if (Take("b")) {
      character = '\b';
    } else {
      INCIPIT_ASSIGN_OR_RETURN(character, ParseCharacterEscape());
    }
  } else {
    character = NextCodePoint(pattern_, position_);
  }
  return ClassItem{.set = CodePointSet({{character, character}}), .character = character};
}

absl::StatusOr<std::optional<CodePointSet>> RegexParser::ParsePosixBracket() {
  const size_t end = pattern_.find(":]", position_);
  constexpr size_t kNameBytesMax = 10;
  if (end == pattern_.npos || end - position_ > kNameBytesMax) {
    return std::optional<CodePointSet>();
  }
  std::string_view name = pattern_.substr(position_ + 2, end - position_ - 2);
  const bool negative = name.starts_with('^');
  if (negative) name.remove_prefix(1);
  constexpr std::string_view kNames[] = {"alnum", "alpha", "ascii", "blank", "cntrl",
                                         "digit", "graph", "lower", "print", "punct",
                                         "space", "upper", "word",  "xdigit"};
  if (std::ranges::find(kNames, name) == std::end(kNames)) {
    return Wrong("a POSIX bracket (such as [:alpha:]) has an unknown name");
  }
  position_ = end + 2;
  CodePointSet set = *properties_.Property(name);
  if (name == "punct") set.Add(*properties_.Property("S"));
  if (negative) set.Invert();
  return std::optional(std::move(set));
}

absl::StatusOr<std::optional<CodePointSet>> RegexParser::ParseClassEscape() {
  const char letter = pattern_[position_];
  CodePointSet set;
  switch (letter | 0x20) {
    case 'd':
      set = *properties_.Property("Nd");
      break;
    case 'w':
      set = properties_.WordCharacters();
      break;
    case 's':
      set = WhitespaceCharacters();
      break;
    case 'h':
      set = *properties_.Property("xdigit");
      break;
    case 'p':
      if (pattern_.substr(position_ + 1).starts_with('{')) {
        position_ += 2;
        INCIPIT_ASSIGN_OR_RETURN(set, ParseProperty(letter == 'P'));
        return std::optional(std::move(set));
      }
      return std::optional<CodePointSet>();
    default:
      return std::optional<CodePointSet>();
  }
  ++position_;
  const bool is_capital = letter < 'a';
  if (is_capital) set.Invert();
  return std::optional(std::move(set));
}

// Parses a property such as \p{L}, from the position after its opening brace to the position after
// its closing brace.
absl::StatusOr<CodePointSet> RegexParser::ParseProperty(bool negative) {
  if (Take("^")) negative = !negative;
  const size_t end = pattern_.find('}', position_);
  if (end == pattern_.npos) return Wrong("a property (such as \\p{L}) has no closing brace");
  const std::string_view name = pattern_.substr(position_, end - position_);
  constexpr size_t kNameBytesMax = 40;
  const bool is_plain = name.size() <= kNameBytesMax && std::ranges::all_of(name, [](char c) {
                          return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                                 (c >= 'a' && c <= 'z') || c == '_' || c == '-' || c == ' ';
                        });
  auto set = is_plain ? properties_.Property(name) : std::nullopt;
  if (!set) return NotSupported(fmt::format("the property {}", is_plain ? name : "of this name"));
  position_ = end + 1;
  if (negative) set->Invert();
  return *std::move(set);
}

absl::StatusOr<char32_t> RegexParser::ParseDigits(size_t digits_max, int base) {
  char32_t value = 0;
  size_t digits = 0;
  for (; digits < digits_max && !AtEnd(); ++digits, ++position_) {
    const char c = pattern_[position_];
    const char lower = static_cast<char>(c | 0x20);
    int digit = 16;
    if (c >= '0' && c <= '9') digit = c - '0';
    if (lower >= 'a' && lower <= 'f') digit = lower - 'a' + 10;
    if (digit >= base) break;
    value = value * base + digit;
    if (value > kCodePointMax) return Wrong("an escape has a code point above U+10FFFF");
  }
  if (digits == 0) return Wrong("an escape for a code point has no digits");
  return value;
}

absl::StatusOr<char32_t> RegexParser::ParseCharacterEscape() {
  if (Take("x{")) {
    INCIPIT_ASSIGN_OR_RETURN(const char32_t character, ParseDigits(8, 16));
    if (!Take("}"))
      return NotSupported("an escape such as \\x{41} must contain exactly one code point");
    return character;
  }
  if (Take("x")) return ParseDigits(2, 16);
  if (Take("u")) return ParseDigits(4, 16);
  if (Looking("0")) return ParseDigits(3, 8);
  if (Looking("c") || Looking("M-"))
    return NotSupported("control characters such as \\cA are not supported");
  const char letter = pattern_[position_];
  if (letter >= '1' && letter <= '7') return ParseDigits(3, 8);
  constexpr std::pair<char, char32_t> kLetters[] = {
      {'t', '\t'}, {'n', '\n'}, {'r', '\r'}, {'f', '\f'}, {'v', '\v'}, {'a', '\a'}, {'e', 0x1B},
  };
  for (const auto& [name, character] : kLetters) {
    if (letter != name) continue;
    ++position_;
    return character;
  }
  return NextCodePoint(pattern_, position_);
}

}  // namespace incipit
