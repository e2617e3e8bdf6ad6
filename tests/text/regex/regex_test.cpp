#include "text/regex/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace incipit {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

absl::StatusOr<std::vector<std::string>> Matches(std::string_view pattern, std::string_view text,
                                                 Regex::Engine engine) {
  auto regex = Regex::Compile(pattern, engine);
  if (!regex.ok()) return regex.status();
  std::vector<std::string> matches;
  const absl::Status status = regex->FindAll(text, [&](const Span& span) {
    if (span.is_match) matches.emplace_back(text.substr(span.begin, span.end - span.begin));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return matches;
}

struct Case {
  std::string_view pattern, text;
  std::vector<std::string> matches;
};

// Patterns, texts, and the matches that the library Hugging Face tokenizers finds.
const Case kCases[] = {
    {"a$", "a\na b a", {"a", "a"}},
    {"^a", "a\na", {"a", "a"}},
    {".", "a\nb\r", {"a", "b", "\r"}},
    {"a{1,2}+", "aaaaa", {"aaaaa"}},
    {"a++a", "aaa", {}},
    {R"(\h+)", "af09 \tg", {"af09"}},
    {R"(\R)", "\r\n", {"\r\n"}},
    {"(?m).+", "a\nb", {"a\nb"}},
    {"[a-z&&[^b]]+", "abc", {"a", "c"}},
    {"[a[bc]]+", "abcd", {"abc"}},
    {R"(\x{4e00})", "一", {"一"}},
    {R"(\p{Han}+)", "一a", {"一"}},
    {R"(\p{^L}+)", "一1", {"1"}},
    {"[[:alpha:]]+", "a1", {"a"}},
    {"[[:^alpha:]]+", "a1", {"1"}},
    {"(?i:'s)", "'ſ", {"'ſ"}},
    {"(?i)[a-k]+", "K\u212Ak", {"K\u212Ak"}},
    {"(?i:k)", "\u212A", {"\u212A"}},
    {"(?i)a|b", "AB", {"A", "B"}},
    {"a(?i)b|c", "aB aC C ac", {"aB", "aC", "ac"}},
    {R"((?i)\p{Lu}+)", "abAB", {"AB"}},
    {R"((?i)[\p{Lu}]+)", "abAB", {"abAB"}},
    {"(?i)[^a]+", "aAbB", {"bB"}},
    {"(?-i:a)", "aA", {"a"}},
    {"a{,2}", "aaa", {"aa", "a"}},
    {"a{x", "a{x", {"a{x"}},
    {"a{2,3}?", "aaaaa", {"aa", "aa"}},
    {"a(?=b)", "ab", {"a"}},
    {"(?<=a)b", "ab", {"b"}},
    {"(?<!a)b", "ab", {}},
    {"(?<=a|bc)d", "ad bcd xd", {"d", "d"}},
    {R"(a\Z)", "a\n", {"a"}},
    {"(?#c)a", "a", {"a"}},
    {"(?x) a b # c", "ab", {"ab"}},
    {"[]a]", "]a", {"]", "a"}},
    {"[a-z-9]+", "b-9", {"b-9"}},
    {"[^a&&b]+", "abc", {"abc"}},
    {" ?[^(\\s|[.,!?…。，、।۔،])]+", "ab (c|d [e f,g", {"ab", "c", "d", " [e", " f", "g"}},
    {"(?:a|ab)(?:c|bcd)", "abcd", {"abcd"}},
    {kGpt2, "it's  two\n\n 12", {"it", "'s", " ", " two", "\n\n", " 12"}},
};

TEST(RegexTest, FindsWhatTheReferenceFindsByAutomaton) {
  for (const Case& c : kCases) {
    const auto matches = Matches(c.pattern, c.text, Regex::Engine::kAutomaton);
    ASSERT_TRUE(matches.ok()) << c.pattern << ": " << matches.status();
    EXPECT_EQ(*matches, c.matches) << c.pattern;
  }
}

TEST(RegexTest, FindsWhatTheReferenceFindsByBacktracking) {
  for (const Case& c : kCases) {
    const auto matches = Matches(c.pattern, c.text, Regex::Engine::kBacktracking);
    ASSERT_TRUE(matches.ok()) << c.pattern << ": " << matches.status();
    EXPECT_EQ(*matches, c.matches) << c.pattern;
  }
}

TEST(RegexTest, WhatNoAutomatonCanDoIsDoneByBacktracking) {
  for (const Case& c : {Case{R"((a)\1)", "aa", {"aa"}}, Case{R"((?<x>a)\k<x>)", "aa", {"aa"}},
                        Case{"(?>a+)b", "aab", {"aab"}}}) {
    EXPECT_FALSE(Regex::Compile(c.pattern, Regex::Engine::kAutomaton).ok()) << c.pattern;
    const auto matches = Matches(c.pattern, c.text, Regex::Engine::kBestAvailable);
    ASSERT_TRUE(matches.ok()) << matches.status();
    EXPECT_EQ(*matches, c.matches) << c.pattern;
  }
}

TEST(RegexTest, AnErrorNamesTheByteAndTheConstruct) {
  const auto wrong = Regex::Compile("ab)");
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.status().message()), testing::HasSubstr("at byte 2"));
  const auto unsupported = Regex::Compile(R"(a\p{Nonsense})");
  EXPECT_EQ(unsupported.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(unsupported.status().message()), testing::HasSubstr("Nonsense"));
  for (const char* pattern : {"(", "[", "[]", "*", "a|*", "(?i", R"(\)", "[z-a]", "(?=a)*b"}) {
    EXPECT_FALSE(Regex::Compile(pattern).ok()) << pattern;
  }
  EXPECT_FALSE(Regex::Compile(std::string(1000, '(')).ok());
  EXPECT_FALSE(Regex::Compile(std::string(1000, '[')).ok());
}

TEST(RegexTest, ExpressionsThatExplodeElsewhereTakeLinearTime) {
  const std::string text = std::string(1 << 20, 'a') + "b";
  const std::string blanks = std::string(1 << 20, ' ') + "b";
  const std::string digits(1 << 20, '7');
  EXPECT_TRUE(Matches("(a+)+$", text, Regex::Engine::kBestAvailable).ok());
  EXPECT_EQ(*Matches(R"(\s+$)", blanks, Regex::Engine::kBestAvailable), std::vector<std::string>());
  EXPECT_TRUE(Matches(R"((?=(\d{3})+(?!\d)))", digits, Regex::Engine::kBestAvailable).ok());
}

TEST(RegexTest, BacktrackingIsAllowedMoreStepsOnALongerText) {
  std::string prose;
  while (prose.size() < 1 << 20) prose += "It was a bright cold day in April, and the clocks. ";
  for (const char* pattern : {"(?>a+|e+)b?|.", R"((a)(b)?\1|.)"}) {
    EXPECT_TRUE(Matches(pattern, prose, Regex::Engine::kBacktracking).ok()) << pattern;
  }
  // The search takes quadratic time, which is allowed for a short text.
  const std::string word(3000, 'a');
  EXPECT_TRUE(Matches(R"((?<!\w)\d+|\w+(?=\s)|\S)", word, Regex::Engine::kBacktracking).ok());
}

TEST(RegexTest, ASearchThatWouldTakeTooLongGivesUp) {
  const std::string text(1 << 20, 'a');
  // For each match, the automaton searches the rest of the text for a longer match. The time is
  // therefore quadratic.
  const auto automaton = Matches("a.*b|a", text, Regex::Engine::kAutomaton);
  EXPECT_EQ(automaton.status().code(), absl::StatusCode::kInvalidArgument);
  const auto backtracking = Matches("(a+)+$", text + "b", Regex::Engine::kBacktracking);
  EXPECT_EQ(backtracking.status().code(), absl::StatusCode::kInvalidArgument);
}

// Returns a random expression over a small alphabet, so that expressions match often.
std::string RandomPattern(std::mt19937& random, int depth) {
  const auto one_of = [&](std::initializer_list<const char*> choices) {
    return std::string(choices.begin()[random() % choices.size()]);
  };
  std::string pattern;
  for (size_t i = 0; i < 1 + random() % 3; ++i) {
    const size_t kind = random() % (depth > 0 ? 8 : 4);
    if (kind < 3) {
      pattern += one_of({"a", "b", "é", "[ab]", "[^a]", ".", R"(\s)", "[a-z]"});
    } else if (kind == 3) {
      pattern += one_of({"^", "$", "(?!a)", "(?=b)", "(?<=a)", "(?<!b)", R"(\z)"});
      continue;
    } else if (kind == 4) {
      pattern +=
          "(?:" + RandomPattern(random, depth - 1) + "|" + RandomPattern(random, depth - 1) + ")";
    } else if (kind == 5) {
      pattern += one_of({"(?=", "(?!"}) + RandomPattern(random, depth - 1) + ")";
      continue;
    } else {
      pattern += "(?:" + RandomPattern(random, depth - 1) + ")";
    }
    pattern += one_of({"", "", "*", "+", "?", "*?", "{1,2}", "{2}"});
  }
  return pattern;
}

TEST(RegexTest, AnAutomatonFindsWhatPcre2Finds) {
  std::mt19937 random(1);
  int num_compared = 0;
  for (int round = 0; round < 1000; ++round) {
    const std::string pattern = RandomPattern(random, 2);
    std::string text;
    for (size_t i = 0; i < random() % 12; ++i) {
      text += std::string_view(" a\nbabab").substr(random() % 8, 1);
      if (random() % 8 == 0) text += "é";
    }
    const auto automaton = Matches(pattern, text, Regex::Engine::kAutomaton);
    const auto backtracking = Matches(pattern, text, Regex::Engine::kBacktracking);
    if (!automaton.ok() || !backtracking.ok()) continue;
    ++num_compared;
    ASSERT_EQ(*automaton, *backtracking) << pattern << " on " << testing::PrintToString(text);
  }
  EXPECT_GT(num_compared, 500);
}

}  // namespace
}  // namespace incipit
