#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace incipit {
namespace {

StopStrings SearchFor(std::vector<std::string> strings) {
  return StopStrings(std::make_shared<const StopStringSet>(std::move(strings)));
}

TEST(StopStringsTest, AStringAcrossPiecesIsFound) {
  StopStrings stop = SearchFor({"END"});
  EXPECT_EQ(stop.Push("text E", false).text, "text ");
  EXPECT_EQ(stop.Push("N", false).text, "");
  const StopStrings::Result result = stop.Push("D more", false);
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.matched, 0);
}

TEST(StopStringsTest, OfTextThatPassesOnlyABeginningCounts) {
  StopStrings stop = SearchFor({"END", "Ox"});
  EXPECT_EQ(stop.Pass("an END, and EN"), "an END, and ");
  EXPECT_EQ(stop.Push("O", false).text, "EN");
  EXPECT_EQ(stop.Pass("EN"), "O");
  const StopStrings::Result result = stop.Push("D.", false);
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.matched, 0);
}

TEST(StopStringsTest, WhatOnlyLookedLikeABeginningIsShown) {
  StopStrings stop = SearchFor({"END"});
  EXPECT_EQ(stop.Push("EN", false).text, "");
  EXPECT_EQ(stop.Push("ER", false).text, "ENER");
  EXPECT_EQ(stop.Push("EN", false).text, "");
  EXPECT_EQ(stop.Flush(), "EN");
}

TEST(StopStringsTest, TheStopStringIsIncludedIfAskedFor) {
  StopStrings stop = SearchFor({"\n\n", "stop"});
  const StopStrings::Result result = stop.Push("please stop now", true);
  EXPECT_EQ(result.text, "please stop");
  EXPECT_EQ(result.matched, 1);
}

TEST(StopStringsTest, OfTwoThatEndTogetherTheOneThatBeginsFirstWins) {
  StopStrings stop = SearchFor({"b", "ab"});
  const StopStrings::Result result = stop.Push("xab", false);
  EXPECT_EQ(result.text, "x");
  EXPECT_EQ(result.matched, 1);
}

struct Expected {
  std::string text;
  std::optional<size_t> matched;
};

Expected SearchNaively(const std::vector<std::string>& stops, const std::string& text,
                       bool include_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> longest;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (!text.substr(0, end).ends_with(stops[i])) continue;
      if (!longest || stops[i].size() > stops[*longest].size()) longest = i;
    }
    if (longest) {
      return {text.substr(0, include_stop ? end : end - stops[*longest].size()), longest};
    }
  }
  return {text, std::nullopt};
}

TEST(StopStringsTest, AnySplitOfAnyTextGivesWhatANaiveSearchFinds) {
  std::mt19937 random(1);
  const auto below = [&](size_t bound) { return random() % bound; };
  const auto random_text = [&](size_t length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += "ab"[below(2)];
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 0; i < 1 + below(3); ++i) stops.push_back(random_text(1 + below(6)));
    const std::string text = random_text(below(24));
    const bool include_stop = below(2) == 0;
    StopStrings stop = SearchFor(stops);
    std::string shown;
    std::optional<size_t> matched;
    for (size_t begin = 0; begin < text.size() && !matched;) {
      const size_t length = 1 + below(4);
      const StopStrings::Result result = stop.Push(text.substr(begin, length), include_stop);
      shown += result.text;
      matched = result.matched;
      begin += length;
    }
    if (!matched) shown += stop.Flush();
    const Expected expected = SearchNaively(stops, text, include_stop);
    ASSERT_EQ(shown, expected.text) << "round " << round;
    ASSERT_EQ(matched, expected.matched) << "round " << round;
  }
}

TEST(StopStringsTest, NothingIsHeldBackThatCannotBeginAStopString) {
  StopStrings stop = SearchFor({"abab"});
  EXPECT_EQ(stop.Push("xaba", false).text, "x");
  EXPECT_EQ(stop.Push("a", false).text, "aba");
  EXPECT_EQ(stop.Push("c", false).text, "ac");
}

}  // namespace
}  // namespace incipit
