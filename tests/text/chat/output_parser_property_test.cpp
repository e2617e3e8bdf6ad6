// Tests properties of OutputParser on random text: the pieces do not matter, no byte is lost, and
// the time is linear.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/text/chat/parse_output.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

// Strings from which random text is built: markers, parts of calls and ordinary text.
constexpr std::string_view kFragments[] = {
    "<tool_call>",
    "</tool_call>",
    "<tool_",
    "<seed:tool_call>",
    "</seed:tool_call>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "<invoke name=\"f\">",
    "</invoke>",
    "<parameter name=\"a\">",
    "<function=f>",
    "<parameter=a>",
    "</parameter>",
    "</function>",
    "<arg_key>a</arg_key>",
    "<arg_value>1</arg_value>",
    "<TOOLCALL>",
    "</TOOLCALL>",
    "<|tool_call|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "f",
    "<|python_tag|>",
    "<|python_start|>",
    "<|python_end|>",
    "[f(a=1)]",
    "[f(",
    "a='",
    "')",
    ";",
    "<think>",
    "</think>",
    "</thi",
    "<seed:think>",
    "</seed:think>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "f<｜tool▁sep｜>{}",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "f<|tool_call_argument_begin|>{}",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
    "{\"name\": \"f\", \"arguments\": {}}",
    "{\"name\": \"f\", \"parameters\": {\"a\": [1, \"x\"]}}",
    "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
    "<tool_call><function=f></function></tool_call>",
    "[TOOL_CALLS]f[ARGS]{}",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    " ",
    "\n",
    "  \n",
    "text",
    "<",
    "é"};

std::string RandomText(std::mt19937_64& random, size_t num_fragments) {
  std::string text;
  for (size_t i = 0; i < num_fragments; ++i) {
    text += kFragments[random() % std::size(kFragments)];
  }
  return text;
}

std::vector<std::string_view> RandomPieces(std::mt19937_64& random, std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t begin = 0; begin < text.size();) {
    const size_t size = std::min<size_t>(1 + random() % 12, text.size() - begin);
    pieces.push_back(text.substr(begin, size));
    begin += size;
  }
  return pieces;
}

std::string WithoutSpaces(std::string_view text) {
  std::string result;
  std::ranges::remove_copy_if(text, std::back_inserter(result), IsOutputSpace);
  return result;
}

TEST(OutputParserProperty, PiecesDoNotMatterAndNoByteIsLost) {
  std::mt19937_64 random(1);
  size_t num_calls = 0;
  for (const auto& [format, format_name] : kToolFormatNames) {
    for (int i = 0; i < 3000; ++i) {
      const ParserOptions options = {
          .tools = format,
          .reasoning = kReasoningFormatNames[random() % std::size(kReasoningFormatNames)].value,
          .begins_in_reasoning = random() % 2 == 0};
      const std::string text = RandomText(random, 1 + random() % 16);
      const ParsedText whole = ParseWhole(options, text);
      ASSERT_EQ(ParsePieces(options, RandomPieces(random, text)), whole)
          << format_name << ": " << text;
      num_calls += whole.calls.size();
      for (const ToolCall& call : whole.calls) {
        ASSERT_TRUE(nlohmann::json::parse(call.arguments_json).is_object()) << call.arguments_json;
      }
      if (!whole.calls.empty()) continue;
      const ReasoningTags tags = ReasoningTagsOf(options.reasoning);
      std::string kept = WithoutSpaces(whole.reasoning + whole.content);
      std::string expected = WithoutSpaces(text);
      if (expected.size() != kept.size()) {
        // The parser has removed the tags around the reasoning.
        if (expected.starts_with(tags.begin)) expected.erase(0, tags.begin.size());
        const size_t end = WithoutSpaces(whole.reasoning).size();
        if (expected.compare(end, tags.end.size(), tags.end) == 0) {
          expected.erase(end, tags.end.size());
        }
      }
      ASSERT_EQ(kept, expected) << format_name << ": " << text;
      if (options.reasoning == ReasoningFormat::kNone) {
        ASSERT_EQ(whole.content, text);
      }
    }
  }
  EXPECT_GT(num_calls, 300u);
}

TEST(OutputParserProperty, ContentIsUtf8IfThePiecesAre) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = RandomText(random, 12);
    OutputParser parser(ToolFormat::kDeepSeek, ReasoningFormat::kThink, false, true);
    for (size_t begin = 0; begin < text.size();) {
      const size_t size = Utf8Length(text[begin]);
      const ParsedText piece = parser.Push(std::string_view(text).substr(begin, size));
      ASSERT_TRUE(IsUtf8(piece.content)) << text;
      ASSERT_TRUE(IsUtf8(piece.reasoning)) << text;
      begin += size;
    }
  }
}

// Returns the processor time in seconds in which the parser reads `text` in pieces of 4 bytes.
double SecondsFor(const ParserOptions& options, std::string_view text) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    OutputParser parser = MakeParser(options);
    for (size_t at = 0; at < text.size(); at += 4) parser.Push(text.substr(at, 4));
    parser.Finish();
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

// Tests texts that would take quadratic time if the parser read the text of a tool call, or white
// space, repeatedly.
TEST(OutputParserProperty, TimeIsLinear) {
  struct Case {
    ToolFormat format;
    std::string_view begin, repeated;
  };
  const Case cases[] = {
      {ToolFormat::kHermes, "", "<tool_call>"},
      {ToolFormat::kHermes, "", "<tool_call"},
      {ToolFormat::kHermes, "", " "},
      {ToolFormat::kHermes, "<think>", "\n"},
      {ToolFormat::kHermes, "<tool_call>{\"a\": \"", "x"},
      {ToolFormat::kHermes, "<tool_call>{", "\"a\": 1, "},
      {ToolFormat::kHermes, "", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n"},
      {ToolFormat::kQwenXml, "<tool_call><function=f>", "<parameter=a>1</parameter>"},
      {ToolFormat::kQwenXml, "<tool_call><function=f>", "</tool_"},
      {ToolFormat::kGlm, "<tool_call>f", "<arg_key>a</arg_key><arg_value>1</arg_value>"},
      {ToolFormat::kPythonic, "[f(", "a=[1, 'x'], "},
      {ToolFormat::kLlamaJson, "", "{\"name\": \"f\", \"parameters\": {}};"},
      {ToolFormat::kMistral, "", "[TOOL_CALLS]f[ARGS]{}"},
      {ToolFormat::kDeepSeek, "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"},
      {ToolFormat::kDeepSeek, "<｜tool▁calls▁begin｜>",
       "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜> "},
      {ToolFormat::kJson, "[", "{\"name\": \"f\", \"parameters\": {}},"},
  };
  for (const Case& one : cases) {
    const auto seconds = [&](size_t size) {
      std::string text(one.begin);
      while (text.size() < size) text += one.repeated;
      return SecondsFor({.tools = one.format, .reasoning = ReasoningFormat::kThink}, text);
    };
    const double small = seconds(50'000), large = seconds(800'000);
    // A text of 16 times the size may take at most 80 times as long. With quadratic time, it would
    // take 256 times as long.
    EXPECT_LT(large, 80 * std::max(small, 0.0005)) << one.begin << one.repeated;
  }
}

}  // namespace
}  // namespace incipit
