#include "text/chat/python_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tests/text/chat/parse_output.h"

namespace incipit {
namespace {

TEST(PythonCalls, ConvertsLiterals) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"True", "true"},
      {"None", "null"},
      {"false", "false"},
      {"-12", "-12"},
      {"+3", "3"},
      {".5", "0.5"},
      {"1.", "1.0"},
      {"1.5e-3", "1.5e-3"},
      {"123456789012345678901234567890", "123456789012345678901234567890"},
      {"'it\\'s \"x\"'", R"("it's \"x\"")"},
      {R"("a\n\t\x41\u00e9\U0001F600\q")", "\"a\\n\\tA\u00e9\U0001F600\\\\q\""},
      {"[1, 'a', [], ()]", R"([1,"a",[],[]])"},
      {"(1, 2,)", "[1,2]"},
      {"(1,)", "[1]"},
      {"{'a': {'b': None}, \"c\": 1,}", R"({"a":{"b":null},"c":1})"},
      {" 1 ", "1"},
  };
  for (const auto& [python, json] : cases) {
    EXPECT_EQ(JsonOfPythonLiteral(python), std::string(json)) << python;
  }
}

TEST(PythonCalls, RefusesOtherExpressions) {
  for (const std::string_view text :
       {"",     "x",   "1 + 1", "f()", "01",     "1_000",     "0x10",   "1.2.3",   "--1",
        "-",    ".",   "1e",    "'a",  "'a\nb'", "'\\ud800'", "'\\x4'", "'\\101'", "'a' 'b'",
        "b'a'", "(1)", "[1 2]", "[,]", "{1: 2}", "{'a'}",     "[1",     "'\xFF'",  "True1"}) {
    EXPECT_EQ(JsonOfPythonLiteral(text), std::nullopt) << text;
  }
  EXPECT_EQ(JsonOfPythonLiteral(std::string(kToolCallDepthMax + 1, '[')), std::nullopt);
}

TEST(PythonCalls, ReadsCalls) {
  const auto calls = ReadPythonCalls("[ a.b( x = 1 , y='(' ), c() ,]");
  ASSERT_TRUE(calls.has_value());
  EXPECT_THAT(*calls,
              testing::ElementsAre(ToolCall{.name = "a.b", .arguments_json = R"({"x":1,"y":"("})"},
                                   ToolCall{.name = "c", .arguments_json = "{}"}));
  for (const std::string_view text : {"", "[]", "f()", "[f]", "[f(]", "[f(1)]", "[f(a)]", "[f(a=)]",
                                      "[f()] x", "[f(),,]", "[f(**a)]", "[(f())]"}) {
    EXPECT_EQ(ReadPythonCalls(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace incipit
