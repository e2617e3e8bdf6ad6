// Recursive-descent parser of regular expressions. RegexParser is in a header because two files
// implement the class: regex_syntax.cpp (groups and quantifiers) and regex_class_parser.cpp
// (classes).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/regex/regex_syntax.h"
#include "text/unicode/unicode_properties.h"

namespace incipit {

// Groups of characters that are equal if case is ignored. The groups are computed at the first use.
class CaseFolding {
 public:
  // Returns `set` and all characters that equal one of its characters if case is ignored.
  CodePointSet Fold(const CodePointSet& set);

 private:
  // Each group consists of all characters that are equal to each other if case is ignored.
  std::vector<std::vector<char32_t>> groups_;
};

class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : pattern_(pattern) {}
  absl::StatusOr<RegexNode> Parse();

 private:
  struct Flags {
    bool ignore_case = false, dot_all = false, extended = false;
  };
  // One character, or a set of characters, written in a class or as an escape.
  struct ClassItem {
    CodePointSet set = {};
    std::optional<char32_t> character = {};  // the only character of `set`, if it has only one
  };

  // The following functions are implemented in regex_syntax.cpp.
  absl::StatusOr<RegexNode> ParseAlternatives();
  absl::StatusOr<RegexNode> ParseSequence();
  absl::StatusOr<RegexNode> ParseAtom();
  absl::StatusOr<RegexNode> ParseQuantifiers(RegexNode atom);
  absl::StatusOr<RegexNode> ParseGroup();
  absl::StatusOr<RegexNode> ParseFlags();
  absl::StatusOr<RegexNode> ParseGroupBody(RegexNode group);
  absl::StatusOr<RegexNode> ParseEscape();
  std::optional<RegexNode> ParseAssertion(char letter);
  // Parses {min, max} of a quantifier in braces. Returns nothing if the brace is an ordinary
  // character.
  absl::StatusOr<std::optional<std::pair<int, int>>> ParseInterval();
  void SkipExtended();
  RegexNode Literal(char32_t character);
  absl::Status CheckFolding(const RegexNode& sequence) const;

  // The following functions are implemented in regex_class_parser.cpp.
  absl::StatusOr<CodePointSet> ParseClass();
  absl::StatusOr<CodePointSet> ParseClassItems();
  absl::StatusOr<ClassItem> ParseClassItem();
  absl::StatusOr<ClassItem> ParseRange(ClassItem first);
  absl::StatusOr<std::optional<CodePointSet>> ParsePosixBracket();
  // Parses, after a backslash, a class such as \d or \p{L}. Returns nothing if no class follows.
  absl::StatusOr<std::optional<CodePointSet>> ParseClassEscape();
  // Parses, after a backslash, the escape of one character.
  absl::StatusOr<char32_t> ParseCharacterEscape();
  absl::StatusOr<char32_t> ParseDigits(size_t digits_max, int base);
  absl::StatusOr<CodePointSet> ParseProperty(bool negative);

  bool AtEnd() const { return position_ == pattern_.size(); }
  bool Looking(std::string_view text) const { return pattern_.substr(position_).starts_with(text); }
  bool Take(std::string_view text) {
    if (!Looking(text)) return false;
    position_ += text.size();
    return true;
  }
  absl::Status Wrong(std::string_view what) const;
  absl::Status NotSupported(std::string_view what) const;

  std::string_view pattern_;
  size_t position_ = 0;
  Flags flags_;
  int depth_ = 0;
  int num_groups_ = 0;
  std::map<std::string, int, std::less<>> named_groups_;
  RegexProperties properties_;
  CaseFolding case_folding_;
};

}  // namespace incipit
