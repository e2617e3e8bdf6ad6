#include "text/regex/regex_syntax.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "text/regex/regex_parser.h"
#include "text/unicode/unicode_properties.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

using Kind = RegexNode::Kind;

RegexNode SetNode(CodePointSet set) { return {.kind = Kind::kSet, .set = std::move(set)}; }

RegexNode NextNode(CodePointSet set, bool at_end) {
  return {.kind = Kind::kNext, .set = std::move(set), .at_edge = at_end};
}

RegexNode PreviousNode(CodePointSet set, bool at_start) {
  return {.kind = Kind::kPrevious, .set = std::move(set), .at_edge = at_start};
}

RegexNode Both(Kind kind, RegexNode first, RegexNode second) {
  RegexNode node{.kind = kind};
  node.children.push_back(std::move(first));
  node.children.push_back(std::move(second));
  return node;
}

CodePointSet Inverse(CodePointSet set) {
  set.Invert();
  return set;
}

CodePointSet None() { return {}; }
CodePointSet Newline() { return CodePointSet({{'\n', '\n'}}); }
CodePointSet AnyCharacter() { return Inverse({}); }

// Returns a node that matches at word boundaries, like \b. If `is_boundary` is false, the node
// matches at all other positions, like \B.
RegexNode WordBoundary(const CodePointSet& word, bool is_boundary) {
  const CodePointSet other = Inverse(word);
  RegexNode after_word = Both(Kind::kConcat, PreviousNode(word, false),
                              is_boundary ? NextNode(other, true) : NextNode(word, false));
  RegexNode after_other = Both(Kind::kConcat, PreviousNode(other, true),
                               is_boundary ? NextNode(word, false) : NextNode(other, true));
  return Both(Kind::kAlternate, std::move(after_word), std::move(after_other));
}

// Converts the repetition `repeat`, such as `x*`, to its possessive form, such as `x*+`. The
// possessive form always matches as many `x` as possible.
RegexNode Possessive(RegexNode repeat) {
  if (repeat.children[0].kind != Kind::kSet || repeat.min > 1) {
    RegexNode atomic{.kind = Kind::kAtomic};
    atomic.children.push_back(std::move(repeat));
    return atomic;
  }
  const CodePointSet set = repeat.children[0].set;
  RegexNode none_follows = NextNode(Inverse(set), true);
  if (repeat.max < 0) return Both(Kind::kConcat, std::move(repeat), std::move(none_follows));
  // x?+ matches one `x` or, if no `x` follows, the empty string.
  return Both(Kind::kAlternate, SetNode(set), std::move(none_follows));
}

// Returns a node for a look-around with the expression `content`. If `content` is a single
// character, the result is a kNext or kPrevious node, which checks one neighbouring character.
RegexNode LookAround(Kind kind, bool negative, RegexNode content) {
  const bool is_ahead = kind == Kind::kLookAhead;
  if (content.kind == Kind::kSet) {
    CodePointSet set = negative ? Inverse(std::move(content.set)) : std::move(content.set);
    return is_ahead ? NextNode(std::move(set), negative) : PreviousNode(std::move(set), negative);
  }
  RegexNode node{.kind = kind, .negative = negative};
  node.children.push_back(std::move(content));
  return node;
}

}  // namespace

absl::StatusOr<RegexNode> ParseRegex(std::string_view pattern) {
  if (pattern.size() > kRegexBytesMax || !IsUtf8(pattern)) {
    return InvalidArgument("a regular expression must be valid UTF-8 and have at most {} bytes",
                           kRegexBytesMax);
  }
  return RegexParser(pattern).Parse();
}

absl::Status RegexParser::Wrong(std::string_view what) const {
  return InvalidArgument("the regular expression has an error at byte {}: {}", position_, what);
}

absl::Status RegexParser::NotSupported(std::string_view what) const {
  return Unimplemented("the regular expression has an unsupported construct at byte {}: {}",
                       position_, what);
}

absl::StatusOr<RegexNode> RegexParser::Parse() {
  INCIPIT_ASSIGN_OR_RETURN(RegexNode node, ParseAlternatives());
  if (!AtEnd()) return Wrong("a closing parenthesis has no opening parenthesis");
  return node;
}

absl::StatusOr<RegexNode> RegexParser::ParseAlternatives() {
  const Flags flags = flags_;
  RegexNode node{.kind = Kind::kAlternate};
  do {
    INCIPIT_ASSIGN_OR_RETURN(RegexNode sequence, ParseSequence());
    node.children.push_back(std::move(sequence));
  } while (Take("|"));
  // A flag such as (?i) has an effect only until the end of its group.
  flags_ = flags;
  if (node.children.size() > 1) return node;
  RegexNode only = std::move(node.children[0]);
  return only;
}

absl::StatusOr<RegexNode> RegexParser::ParseSequence() {
  RegexNode node{.kind = Kind::kConcat};
  for (SkipExtended(); !AtEnd() && !Looking("|") && !Looking(")"); SkipExtended()) {
    INCIPIT_ASSIGN_OR_RETURN(RegexNode atom, ParseAtom());
    INCIPIT_ASSIGN_OR_RETURN(RegexNode item, ParseQuantifiers(std::move(atom)));
    node.children.push_back(std::move(item));
  }
  INCIPIT_RETURN_IF_ERROR(CheckFolding(node));
  if (node.children.size() != 1) return node;
  RegexNode only = std::move(node.children[0]);
  return only;
}

void RegexParser::SkipExtended() {
  while (flags_.extended && !AtEnd()) {
    if (Take("#")) {
      while (!AtEnd() && !Take("\n")) ++position_;
    } else if (pattern_[position_] == ' ' ||
               (pattern_[position_] >= '\t' && pattern_[position_] <= '\r')) {
      ++position_;
    } else {
      return;
    }
  }
}

RegexNode RegexParser::Literal(char32_t character) {
  const CodePointSet set({{character, character}});
  return SetNode(flags_.ignore_case ? case_folding_.Fold(set) : set);
}

// Rejects a case-insensitive `sequence` in which one character equals two characters. For example,
// `ß` equals `ss` if case is ignored. A set of characters cannot express such an equality.
absl::Status RegexParser::CheckFolding(const RegexNode& sequence) const {
  if (!flags_.ignore_case) return absl::OkStatus();
  constexpr std::string_view kPairs[] = {"ss", "ff", "fi", "fl", "st"};
  const auto is_letter = [](const RegexNode& node, char letter) {
    return node.kind == Kind::kSet && node.set.Contains(letter) && node.set.ranges().size() <= 3;
  };
  for (size_t i = 0; i < sequence.children.size(); ++i) {
    const RegexNode& node = sequence.children[i];
    if (node.kind == Kind::kSet && (node.set.Contains(0xDF) || node.set.Contains(0xFB00)) &&
        node.set.ranges().size() <= 3) {
      return NotSupported(
          "one character equals two characters if case is ignored (such as \u00DF and ss)");
    }
    if (i + 1 == sequence.children.size()) break;
    for (const std::string_view pair : kPairs) {
      if (is_letter(node, pair[0]) && is_letter(sequence.children[i + 1], pair[1])) {
        return NotSupported(
            "two characters equal one character if case is ignored (such as ss and \u00DF)");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RegexNode> RegexParser::ParseAtom() {
  if (Take("(")) return ParseGroup();
  if (Take("[")) {
    INCIPIT_ASSIGN_OR_RETURN(CodePointSet set, ParseClass());
    return SetNode(std::move(set));
  }
  if (Take(".")) return SetNode(flags_.dot_all ? AnyCharacter() : Inverse(Newline()));
  if (Take("$")) return NextNode(Newline(), true);
  if (Take("^")) {
    // `^` matches at the start of the text, and after each newline except a newline at the end of
    // the text.
    RegexNode line =
        Both(Kind::kConcat, PreviousNode(Newline(), false), NextNode(AnyCharacter(), false));
    return Both(Kind::kAlternate, PreviousNode(None(), true), std::move(line));
  }
  if (Looking("*") || Looking("+") || Looking("?")) return Wrong("the quantifier has no operand");
  if (Take("\\")) return ParseEscape();
  return Literal(NextCodePoint(pattern_, position_));
}

absl::StatusOr<RegexNode> RegexParser::ParseQuantifiers(RegexNode atom) {
  while (!AtEnd()) {
    RegexNode repeat{.kind = Kind::kRepeat, .max = -1};
    bool in_braces = false;
    SkipExtended();
    if (Take("?")) {
      repeat.max = 1;
    } else if (Take("+")) {
      repeat.min = 1;
    } else if (!Take("*")) {
      INCIPIT_ASSIGN_OR_RETURN(const auto interval, ParseInterval());
      if (!interval) break;
      std::tie(repeat.min, repeat.max) = *interval;
      in_braces = true;
    }
    if (atom.kind >= Kind::kNext) return Wrong("an assertion (such as ^) cannot be repeated");
    repeat.children.push_back(std::move(atom));
    if (Take("?")) {
      repeat.greed = RegexNode::Greed::kLazy;
      atom = std::move(repeat);
    } else if (!in_braces && Take("+")) {
      atom = Possessive(std::move(repeat));
    } else {
      atom = std::move(repeat);
    }
  }
  return atom;
}

absl::StatusOr<std::optional<std::pair<int, int>>> RegexParser::ParseInterval() {
  const std::optional<std::pair<int, int>> kNoInterval;
  const size_t begin = position_;
  if (!Take("{")) return kNoInterval;
  const auto number = [&]() -> int {
    int value = -1;
    while (!AtEnd() && pattern_[position_] >= '0' && pattern_[position_] <= '9') {
      value = std::min(std::max(value, 0) * 10 + (pattern_[position_++] - '0'), 1'000'000);
    }
    return value;
  };
  int min = number(), max = min;
  const bool has_comma = Take(",");
  if (has_comma) max = number();
  if ((min < 0 && max < 0) || !Take("}")) {
    position_ = begin;
    return kNoInterval;
  }
  min = std::max(min, 0);
  if (min > kRegexRepeatMax || max > kRegexRepeatMax) {
    return NotSupported(fmt::format("more than {} repetitions", kRegexRepeatMax));
  }
  if (max >= 0 && max < min)
    return NotSupported("the maximum of a repetition is less than its minimum (such as {5,2})");
  return std::optional(std::pair(min, max));
}

absl::StatusOr<RegexNode> RegexParser::ParseGroup() {
  if (Take("?#")) {
    while (!AtEnd() && !Looking(")")) ++position_;
    if (!Take(")")) return Wrong("a comment (?#...) has no closing parenthesis");
    return RegexNode{};
  }
  if (Take("?:")) return ParseGroupBody({.kind = Kind::kEmpty});
  if (Take("?=")) return ParseGroupBody({.kind = Kind::kLookAhead});
  if (Take("?!")) return ParseGroupBody({.kind = Kind::kLookAhead, .negative = true});
  if (Take("?<=")) return ParseGroupBody({.kind = Kind::kLookBehind});
  if (Take("?<!")) return ParseGroupBody({.kind = Kind::kLookBehind, .negative = true});
  if (Take("?>")) return ParseGroupBody({.kind = Kind::kAtomic});
  const bool in_quotes = Take("?'");
  if (in_quotes || Take("?<")) {
    const size_t end = pattern_.find(in_quotes ? '\'' : '>', position_);
    if (end == pattern_.npos) return Wrong("the name of a group has no closing character");
    named_groups_.emplace(pattern_.substr(position_, end - position_), num_groups_ + 1);
    position_ = end + 1;
    return ParseGroupBody({.kind = Kind::kCapture, .group = ++num_groups_});
  }
  if (Looking("?")) return ParseFlags();
  return ParseGroupBody({.kind = Kind::kCapture, .group = ++num_groups_});
}

// Parses flags such as (?i) or (?m-x:...). The flags in (?i) apply until the end of the enclosing
// group. The flags in (?m-x:...) apply only to the expression after the colon.
absl::StatusOr<RegexNode> RegexParser::ParseFlags() {
  ++position_;
  Flags flags = flags_;
  for (bool value = true; !AtEnd(); ++position_) {
    const char letter = pattern_[position_];
    if (letter == '-') {
      value = false;
    } else if (letter == 'i') {
      flags.ignore_case = value;
    } else if (letter == 'm') {
      flags.dot_all = value;
    } else if (letter == 'x') {
      flags.extended = value;
    } else {
      break;
    }
  }
  const Flags outer = flags_;
  flags_ = flags;
  if (Take(":")) {
    auto group = ParseGroupBody({.kind = Kind::kEmpty});
    flags_ = outer;
    return group;
  }
  if (!Take(")")) return NotSupported("this kind of group");
  // The flags also apply to the following alternatives of the enclosing group: a(?i)b|c means
  // a(?i:b|c).
  auto rest = ParseAlternatives();
  flags_ = outer;
  return rest;
}

absl::StatusOr<RegexNode> RegexParser::ParseGroupBody(RegexNode group) {
  if (++depth_ > kRegexDepthMax) {
    return NotSupported(fmt::format("more than {} nested groups", kRegexDepthMax));
  }
  INCIPIT_ASSIGN_OR_RETURN(RegexNode content, ParseAlternatives());
  if (!Take(")")) return Wrong("a group has no closing parenthesis");
  --depth_;
  if (group.kind == Kind::kEmpty) return content;
  if (group.kind == Kind::kLookAhead || group.kind == Kind::kLookBehind) {
    return LookAround(group.kind, group.negative, std::move(content));
  }
  group.children.push_back(std::move(content));
  return group;
}

// Returns the node of the assertion with the letter `letter`, such as b for \b. An assertion
// matches at a position between characters. Returns nothing if there is no such assertion.
std::optional<RegexNode> RegexParser::ParseAssertion(char letter) {
  switch (letter) {
    case 'A':
      return PreviousNode(None(), true);
    case 'z':
      return NextNode(None(), true);
    case 'Z': {
      RegexNode newline = Both(Kind::kConcat, SetNode(Newline()), NextNode(None(), true));
      return Both(Kind::kAlternate, NextNode(None(), true),
                  LookAround(Kind::kLookAhead, false, std::move(newline)));
    }
    case 'b':
    case 'B':
      return WordBoundary(properties_.WordCharacters(), letter == 'b');
    default:
      return std::nullopt;
  }
}

absl::StatusOr<RegexNode> RegexParser::ParseEscape() {
  if (AtEnd()) return Wrong("the expression ends with a backslash");
  const char letter = pattern_[position_];
  if (auto assertion = ParseAssertion(letter)) {
    ++position_;
    return *std::move(assertion);
  }
  // \R matches a line break: \r\n or one line-break character.
  if (letter == 'R') {
    ++position_;
    const CodePointSet carriage_return({{'\r', '\r'}});
    RegexNode node{.kind = Kind::kAlternate};
    node.children.push_back(Both(Kind::kConcat, SetNode(carriage_return), SetNode(Newline())));
    node.children.push_back(SetNode(CodePointSet({{0xA, 0xC}, {0x85, 0x85}, {0x2028, 0x2029}})));
    node.children.push_back(
        Both(Kind::kConcat, SetNode(carriage_return), NextNode(Inverse(Newline()), true)));
    return node;
  }
  if (const int group = letter - '0'; group >= 1 && group <= std::min(num_groups_, 9)) {
    ++position_;
    return RegexNode{.kind = Kind::kBackreference, .group = group};
  }
  if (Take("k<")) {
    const size_t end = pattern_.find('>', position_);
    const auto named = named_groups_.find(pattern_.substr(position_, end - position_));
    if (end == pattern_.npos || named == named_groups_.end()) {
      return NotSupported("a backreference names a group that does not exist");
    }
    position_ = end + 1;
    return RegexNode{.kind = Kind::kBackreference, .group = named->second};
  }
  constexpr std::string_view kOthers = "XGKgkyYOC";
  if (kOthers.find(letter) != kOthers.npos) {
    return NotSupported(fmt::format("\\{}", letter));
  }
  if (Take("N")) return SetNode(Inverse(Newline()));
  INCIPIT_ASSIGN_OR_RETURN(auto set, ParseClassEscape());
  if (set) return SetNode(*std::move(set));
  INCIPIT_ASSIGN_OR_RETURN(const char32_t character, ParseCharacterEscape());
  return Literal(character);
}

}  // namespace incipit
