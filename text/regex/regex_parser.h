// Recursive descent over an expression. In a header because it is spread over two files: groups and
// quantifiers, and classes of characters.
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

// Which characters differ in case only. Made when it is first asked for.
class CaseFolding {
 public:
  // The set, and what differs in case only from one of its characters.
  CodePointSet Fold(const CodePointSet& set);

 private:
  std::vector<std::vector<char32_t>> groups_;  // of characters that equal each other
};

class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : pattern_(pattern) {}
  absl::StatusOr<RegexNode> Parse();

 private:
  struct Flags {
    bool ignore_case = false, dot_all = false, extended = false;
  };
  // A character or a set of them, as a class or an escape writes it.
  struct ClassItem {
    CodePointSet set = {};
    std::optional<char32_t> character = {};  // set if it is exactly one
  };

  // regex_syntax.cpp
  absl::StatusOr<RegexNode> ParseAlternatives();
  absl::StatusOr<RegexNode> ParseSequence();
  absl::StatusOr<RegexNode> ParseAtom();
  absl::StatusOr<RegexNode> ParseQuantifiers(RegexNode atom);
  absl::StatusOr<RegexNode> ParseGroup();
  absl::StatusOr<RegexNode> ParseFlags();
  absl::StatusOr<RegexNode> ParseGroupBody(RegexNode group);
  absl::StatusOr<RegexNode> ParseEscape();
  std::optional<RegexNode> ParseAssertion(char letter);
  // {min, max} of a quantifier in braces; nothing if the brace is a plain character.
  absl::StatusOr<std::optional<std::pair<int, int>>> ParseInterval();
  void SkipExtended();
  RegexNode Literal(char32_t character);
  absl::Status CheckFolding(const RegexNode& sequence) const;

  // regex_class_parser.cpp
  absl::StatusOr<CodePointSet> ParseClass();
  absl::StatusOr<CodePointSet> ParseClassItems();
  absl::StatusOr<ClassItem> ParseClassItem();
  absl::StatusOr<ClassItem> ParseRange(ClassItem first);
  absl::StatusOr<std::optional<CodePointSet>> ParsePosixBracket();
  // Behind a backslash: a class such as \d or \p{L}; nothing if it is none.
  absl::StatusOr<std::optional<CodePointSet>> ParseClassEscape();
  // Behind a backslash: one character.
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
