#include "server/http/append_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace incipit {
namespace {

template <typename T>
std::string JsonOf(const T& value) {
  std::string out = "x";
  AppendJson(value, out);
  EXPECT_EQ(out.front(), 'x') << "AppendJson must keep the text in `out`";
  return out.substr(1);
}
std::string JsonOfText(std::string_view text) { return JsonOf(text); }

TEST(JsonTextTest, EscapesQuotationMarksBackslashesAndControlCharacters) {
  EXPECT_EQ(JsonOfText(""), R"("")");
  EXPECT_EQ(JsonOfText("plain"), R"("plain")");
  EXPECT_EQ(JsonOfText("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(JsonOfText("\n\r\t"), R"("\n\r\t")");
  EXPECT_EQ(JsonOfText(std::string_view("\0\x01\x1b\x1f", 4)), R"("\u0000\u0001\u001b\u001f")");
  EXPECT_EQ(JsonOfText("\x7f/"), "\"\x7f/\"");
}

TEST(JsonTextTest, KeepsCharactersOutsideAscii) {
  EXPECT_EQ(JsonOfText("ü€😀"), "\"ü€😀\"");
  EXPECT_EQ(JsonOfText("\u2028"), "\"\u2028\"");
}

TEST(JsonTextTest, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(JsonOfText("a\xff"
                       "b"),
            "\"a\uFFFDb\"");
  EXPECT_EQ(JsonOfText("\xe2\x82"), "\"\uFFFD\"");
  EXPECT_EQ(JsonOfText("\x80\"\n"), "\"\uFFFD\\\"\\n\"");
}

TEST(JsonTextTest, EveryByteStringBecomesJsonThatParses) {
  for (int first = 0; first < 256; ++first) {
    for (const int second : {0x00, 0x22, 0x5c, 0x80, 0xbf, 0xc3, 0xff}) {
      const std::string bytes = {static_cast<char>(first), static_cast<char>(second)};
      const auto parsed = nlohmann::json::parse(JsonOfText(bytes), nullptr, false);
      EXPECT_TRUE(parsed.is_string()) << first << " " << second;
    }
  }
}

TEST(JsonTextTest, NumbersAreExactToTheLastBit) {
  EXPECT_EQ(JsonOf(0.0f), "0");
  EXPECT_EQ(JsonOf(-1.5f), "-1.5");
  EXPECT_EQ(JsonOf(0.1f), "0.100000001");
  for (const float value :
       {1e-40f, 3.4028235e38f, -0.33333334f, 1.17549435e-38f, 16777217.0f, -9999.125f}) {
    EXPECT_EQ(nlohmann::json::parse(JsonOf(value)).get<float>(), value);
  }
}

TEST(JsonTextTest, NumbersThatJsonLacksBecomeFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_EQ(JsonOf(std::nanf("")), "0");
  EXPECT_EQ(nlohmann::json::parse(JsonOf(kInfinity)).get<float>(), kMax);
  EXPECT_EQ(nlohmann::json::parse(JsonOf(-kInfinity)).get<float>(), -kMax);
}

}  // namespace
}  // namespace incipit
