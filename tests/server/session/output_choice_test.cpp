#include "server/session/output_choice.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/session/output_merger.h"
#include "tests/server/test_server.h"

namespace incipit {
namespace {

constexpr std::string_view kCall =
    "<think>why</think>Yes.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";

OutputOptions ToolOptions(bool has_tools = true) {
  OutputOptions options;
  OutputParsing parsing{.formats = {ToolFormat::kHermes, ReasoningFormat::kThink}, .tools = {}};
  if (has_tools) {
    parsing.tools = std::make_shared<const StringParameters>(nlohmann::ordered_json::array());
  }
  options.parsing = std::move(parsing);
  return options;
}

// Returns the output of a choice whose tokens are the bytes of `text`. All output is merged into
// one OutputDelta.
OutputDelta OutputOf(const OutputOptions& options, std::string_view text) {
  static const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
  OutputChoice choice(options, tokenizer.get(), /*after_prompt=*/true);
  OutputMerger merger;
  const std::vector<TokenId> tokens = BytesAsTokens(text);
  for (size_t i = 0; i < tokens.size() && !choice.ended(); ++i) {
    TokenEvent event;
    event.token = tokens[i];
    event.logprobs_row = -1;
    if (i + 1 == tokens.size()) event.finish = FinishReason::kLength;
    OutputPart part;
    choice.Push(event, {}, part.DeltaOf(0));
    merger.Add(std::move(part));
  }
  return merger.Take().deltas.front();
}

TEST(OutputChoiceTest, ToolCallsAndReasoningLeaveTheText) {
  const OutputDelta delta = OutputOf(ToolOptions(), kCall);
  EXPECT_EQ(delta.text, "Yes.");
  EXPECT_EQ(delta.reasoning, "why");
  ASSERT_EQ(delta.tool_calls.size(), 1u);
  EXPECT_EQ(delta.tool_calls[0].index, 0);
  EXPECT_EQ(delta.tool_calls[0].name, "f");
  EXPECT_EQ(delta.tool_calls[0].arguments_json, R"({"a":1})");
  EXPECT_EQ(delta.tokens, BytesAsTokens(kCall));
}

TEST(OutputChoiceTest, SeveralCallsAreNumbered) {
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  const OutputDelta delta = OutputOf(ToolOptions(), call + "\n" + call);
  ASSERT_EQ(delta.tool_calls.size(), 2u);
  EXPECT_EQ(delta.tool_calls[1].index, 1);
}

TEST(OutputChoiceTest, WithoutToolsACallIsText) {
  const OutputDelta delta = OutputOf(ToolOptions(/*has_tools=*/false), kCall);
  EXPECT_TRUE(delta.tool_calls.empty());
  EXPECT_EQ(delta.text, kCall.substr(kCall.find("Yes.")));
  EXPECT_EQ(delta.reasoning, "why");
}

TEST(OutputChoiceTest, WithoutParsingEverythingIsText) {
  EXPECT_EQ(OutputOf({}, kCall).text, kCall);
}

TEST(OutputChoiceTest, ACallThatAStopStringCutsIsText) {
  OutputOptions options = ToolOptions();
  options.stop = std::make_shared<const StopStringSet>(std::vector<std::string>{"\"a\""});
  const OutputDelta delta = OutputOf(options, kCall);
  EXPECT_TRUE(delta.tool_calls.empty());
  EXPECT_EQ(delta.text, "Yes.<tool_call>\n{\"name\": \"f\", \"arguments\": {");
  EXPECT_EQ(delta.finish, FinishReason::kStop);
}

}  // namespace
}  // namespace incipit
