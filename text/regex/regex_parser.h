// A recursive-descent parser of regular expressions. regex_syntax.cpp parses groups and
// quantifiers. regex_class_parser.cpp parses character classes.
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

// Finds the characters that are equal if case is ignored, such as `a` and `A`. The first call of
// Fold() computes the table of equal characters.
class CaseFolding {
 public:
  // Returns `set` and all characters that are equal to a character in `set` if case is ignored.
  CodePointSet Fold(const CodePointSet& set);

 private:
  // Groups of characters that are equal if case is ignored.
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
  // An item of a character class: one character such as `a`, or an escape such as \n or \d.
  struct ClassItem {
    CodePointSet set = {};
    // The character, if the item is a single character.
    std::optional<char32_t> character = {};
  };

  // regex_syntax.cpp implements the functions from ParseAlternatives() to CheckFolding().
  absl::StatusOr<RegexNode> ParseAlternatives();
  absl::StatusOr<RegexNode> ParseSequence();
  absl::StatusOr<RegexNode> ParseAtom();
  absl::StatusOr<RegexNode> ParseQuantifiers(RegexNode atom);
  absl::StatusOr<RegexNode> ParseGroup();
  absl::StatusOr<RegexNode> ParseFlags();
  absl::StatusOr<RegexNode> ParseGroupBody(RegexNode group);
  absl::StatusOr<RegexNode> ParseEscape();
  std::optional<RegexNode> ParseAssertion(char letter);
  // Parses a repetition count in braces, such as {2,5}, and returns the minimum and the maximum.
  // Returns nothing if `position_` is not at a repetition count.
  absl::StatusOr<std::optional<std::pair<int, int>>> ParseInterval();
  void SkipExtended();
  RegexNode Literal(char32_t character);
  absl::Status CheckFolding(const RegexNode& sequence) const;

  // regex_class_parser.cpp implements the functions from ParseClass() to ParseProperty().
  absl::StatusOr<CodePointSet> ParseClass();
  absl::StatusOr<CodePointSet> ParseClassItems();
  absl::StatusOr<ClassItem> ParseClassItem();
  absl::StatusOr<ClassItem> ParseRange(ClassItem first);
  absl::StatusOr<std::optional<CodePointSet>> ParsePosixBracket();
  // Parses an escape for a set of characters, such as \d or \p{L}, after its backslash. Returns
  // nothing if no such escape is at `position_`.
  absl::StatusOr<std::optional<CodePointSet>> ParseClassEscape();
  // Parses an escape for one character, such as \n, after its backslash. Returns the character.
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
