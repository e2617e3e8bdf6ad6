#include "text/chat/output_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/text/chat/parse_output.h"

namespace incipit {
namespace {

using Calls = std::vector<ToolCall>;

// Returns the result for the whole text `text`. Checks that each split of the text into two pieces,
// and the text byte by byte, give the same result.
ParsedText Parse(const ParserOptions& options, std::string_view text) {
  ParsedText whole = ParseWhole(options, text);
  for (size_t i = 0; i <= text.size(); ++i) {
    const ParsedText split =
        ParsePieces(options, std::vector<std::string_view>{text.substr(0, i), text.substr(i)});
    EXPECT_EQ(split, whole) << "split at byte " << i << " of " << text;
  }
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  EXPECT_EQ(ParsePieces(options, bytes), whole) << "byte by byte: " << text;
  return whole;
}

// Expects that the parser finds no tool call in `text` and returns the whole text as content.
void ExpectContent(ToolFormat format, std::string_view text) {
  EXPECT_EQ(Parse({.tools = format}, text), ParsedText({.content = std::string(text)}));
}

void ExpectCalls(ToolFormat format, std::string_view text, const Calls& calls,
                 std::string_view content = "") {
  EXPECT_EQ(Parse({.tools = format}, text),
            ParsedText({.content = std::string(content), .calls = calls}));
}

const ToolCall kWeather = {.name = "get_weather", .arguments_json = R"({"city":"Bern","days":2})"};
const ToolCall kTime = {.name = "time", .arguments_json = "{}"};

TEST(OutputParserHermes, ReadsCalls) {
  constexpr std::string_view kOne =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\", \"days\": "
      "2}}\n</tool_call>";
  constexpr std::string_view kTwo =
      "<tool_call>{\"arguments\": {}, \"name\": \"time\"}</tool_call>";
  const auto both = std::string(kOne) + "\n" + std::string(kTwo);
  ExpectCalls(ToolFormat::kHermes, kOne, {kWeather});
  ExpectCalls(ToolFormat::kHermes, both, {kWeather, kTime});
  ExpectCalls(ToolFormat::kHermes, "I look.\n\n" + both + "\n", {kWeather, kTime}, "I look.");
  ExpectCalls(ToolFormat::kHermes, "A\n" + std::string(kTwo) + "\n B", {kTime}, "A\n B");
  ExpectCalls(ToolFormat::kHermes, std::string(kTwo) + "\nB\n", {kTime}, "B\n");
  // The closing tag may be missing at the end of the output.
  ExpectCalls(ToolFormat::kHermes, "<tool_call>{\"name\": \"time\", \"arguments\": {}}\n</tool",
              {kTime});
  // A closing tag in a string does not end the call.
  ExpectCalls(ToolFormat::kHermes,
              R"(<tool_call>{"name": "f", "arguments": {"x": "</tool_call>}\"{"}}</tool_call>)",
              {{.name = "f", .arguments_json = R"({"x":"</tool_call>}\"{"})"}});
}

TEST(OutputParserHermes, KeepsMalformedCallsAsContent) {
  for (const std::string_view text : {
           "<tool_call>{\"name\": \"f\", \"arguments\": {}",
           "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": tru}}</tool_call> rest",
           "<tool_call>{\"name\": \"f\"}</tool_call>",
           "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
           "<tool_call>{\"name\": 3, \"arguments\": {}}</tool_call>",
           "<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>",
           "<tool_call>{\"name\": \"f\", \"name\": \"g\", \"arguments\": {}}</tool_call>",
           "<tool_call>[]</tool_call>",
           "<tool_call>{\"name\": \"f\", \"arguments\": {}}, then more",
           "a \n <tool_call>\n plain text </tool_call> \n",
           "<tool_call>{\"a\n\": 1}",
           "text <tool_cal",
           "text <tool_call",
           "text <tool_call>",
           " \n",
           "<<tool_<tool_call",
           "<tool_call>{]}",
           "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"\xFF\"}}</tool_call>",
       }) {
    ExpectContent(ToolFormat::kHermes, text);
  }
}

TEST(OutputParserHermes, FindsACallAfterAMalformedCall) {
  constexpr std::string_view kCall =
      "<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>";
  for (const std::string_view before :
       {"<tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": {}}",
        "<tool_call>{x}</tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_",
        "<tool_call>{\"a", "<tool_call>{]", "<<tool_call"}) {
    const bool is_open_string = before.ends_with("\"a");
    const std::string text =
        std::string(before) + (is_open_string ? "\n" : "") + std::string(kCall);
    ExpectCalls(ToolFormat::kHermes, text, {kTime}, before);
  }
}

TEST(OutputParser, WithoutToolsKeepsCallsAsContent) {
  constexpr std::string_view kText =
      " <tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call> ";
  EXPECT_EQ(Parse({.tools = ToolFormat::kHermes, .has_tools = false}, kText),
            ParsedText({.content = std::string(kText)}));
  OutputParser parser(ToolFormat::kHermes, ReasoningFormat::kNone, false, false);
  EXPECT_EQ(parser.Push(" <tool_").content, " <tool_");
}

TEST(OutputParser, KeepsTheSpellingAndTheOrderOfArguments) {
  ExpectCalls(
      ToolFormat::kHermes,
      R"(<tool_call>{"name": "f", "arguments": {"z": 1.50, "a": [1, 12345678901234567890123], "u": "\u00e9 x"}}</tool_call>)",
      {{.name = "f",
        .arguments_json = R"({"z":1.50,"a":[1,12345678901234567890123],"u":"\u00e9 x"})"}});
}

TEST(OutputParser, SendsTextBeforeAPossibleMarkerImmediately) {
  OutputParser parser(ToolFormat::kHermes, ReasoningFormat::kNone, false, true);
  EXPECT_EQ(parser.Push("Hello < world").content, "Hello < world");
  EXPECT_EQ(parser.Push(" \n<tool").content, "");
  EXPECT_EQ(parser.Push("box>").content, " \n<toolbox>");
  EXPECT_EQ(parser.Push("<tool_call>{").content, "");
  EXPECT_EQ(parser.Push("\n\"name\": \"f\", \"arguments\": {}}</tool_call").calls, Calls());
  EXPECT_EQ(parser.Push("> ").calls, Calls({{.name = "f", .arguments_json = "{}"}}));
  EXPECT_EQ(parser.Finish(), ParsedText());
}

TEST(OutputParser, LimitsTheLengthAndTheDepthOfACall) {
  const auto call = [](size_t size) {
    return "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"" + std::string(size, 'x') +
           "\"}}</tool_call>";
  };
  const size_t frame = call(0).size();
  const ParserOptions options = {.tools = ToolFormat::kHermes};
  EXPECT_EQ(ParseWhole(options, call(kToolCallBytesMax - frame)).calls.size(), 1u);
  const std::string large = call(kToolCallBytesMax);
  EXPECT_EQ(ParseWhole(options, large), ParsedText({.content = large}));
  // The tool call and its arguments are the two outermost levels of the JSON.
  const auto nested = [](size_t depth) {
    return "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": " + std::string(depth, '[') +
           std::string(depth, ']') + "}}</tool_call>";
  };
  EXPECT_EQ(ParseWhole(options, nested(kToolCallDepthMax - 2)).calls.size(), 1u);
  const std::string deep = nested(kToolCallDepthMax - 1);
  EXPECT_EQ(ParseWhole(options, deep), ParsedText({.content = deep}));
}

TEST(OutputParserLlama, ReadsCalls) {
  const ToolFormat format = ToolFormat::kLlamaJson;
  constexpr std::string_view kOne =
      R"({"name": "get_weather", "parameters": {"city": "Bern", "days": 2}})";
  constexpr std::string_view kTwo = R"({"type": "function", "name": "time", "parameters": {}})";
  const std::string one(kOne), two(kTwo);
  ExpectCalls(format, one, {kWeather});
  ExpectCalls(format, "\n" + one, {kWeather});
  ExpectCalls(format, one + "; " + two, {kWeather, kTime});
  ExpectCalls(format, one + "\n" + two, {kWeather, kTime});
  ExpectCalls(format, "[" + one + ", " + two + "]", {kWeather, kTime});
  ExpectCalls(format, "<|python_tag|>" + one + ";" + two, {kWeather, kTime});
  ExpectCalls(format, "See: <|python_tag|>" + two, {kTime}, "See:");
  ExpectCalls(format, one + " Done.", {kWeather}, "Done.");
}

TEST(OutputParserLlama, ReadsCallsOnlyAtTheBeginning) {
  for (const std::string_view text :
       {R"(Use {"name": "f", "parameters": {}})", R"({"name": "f"})",
        R"({"city": "Bern"} and more)", R"({"name": "f", "parameters": {})",
        R"(;{"name": "f", "parameters": {}})", "[1] A source", "{", "<|python_tag|>print(1)",
        R"([{"name": "f", "parameters": {}}, 3])", R"({"name": "two words", "parameters": {}})"}) {
    ExpectContent(ToolFormat::kLlamaJson, text);
  }
}

TEST(OutputParserJson, ReadsObjectsAndLists) {
  ExpectCalls(ToolFormat::kJson, R"( {"name": "time", "arguments": {}} )", {kTime});
  ExpectCalls(ToolFormat::kJson,
              R"([{"name": "time", "parameters": {}}, {"name": "time", "arguments": {}}])",
              {kTime, kTime});
  for (const std::string_view text : {R"(x {"name": "f", "parameters": {}})", "[]", "[{}]", "{}",
                                      R"({"name": "f", "parameters": {}, "arguments": {}})"}) {
    ExpectContent(ToolFormat::kJson, text);
  }
}

TEST(OutputParserJson, DoesNotHoldBackOtherJson) {
  for (const ToolFormat format : {ToolFormat::kJson, ToolFormat::kLlamaJson}) {
    for (const std::string_view text : {"{\"city\":", "[ {\"names\"", "[1,", "[[", "{ }"}) {
      EXPECT_EQ(MakeParser({.tools = format}).Push(text).content, text);
    }
    EXPECT_EQ(MakeParser({.tools = format}).Push("[ {\n\"type\": ").content, "");
  }
  ExpectCalls(ToolFormat::kJson, R"({"id": 1, "name": "time", "arguments": {}})", {kTime});
}

TEST(OutputParserPythonic, ReadsCalls) {
  const ToolFormat format = ToolFormat::kPythonic;
  ExpectCalls(format, R"([get_weather(city="Bern", days=2), time()])", {kWeather, kTime});
  ExpectCalls(format, "\n[get_weather(city='Bern', days=2)]\n", {kWeather});
  ExpectCalls(format, "<|python_start|>[time()]<|python_end|>", {kTime});
  ExpectCalls(format, "Text <|python_start|>[time()]<|python_end|> more", {kTime}, "Text more");
  ExpectCalls(format, "[time()] Done.", {kTime}, "Done.");
  for (const std::string_view text :
       {"[1] A source", "[Note: it's here]", "[link](url)", "[f(x)]", "[f(1)]", "[f(a=b)]",
        "[f(a=1]", "[f(a='x)]", "Use [f()]", "[f() g()]", "[f(a=1, a=2)]", "[]", "[f(a='\n')]"}) {
    ExpectContent(format, text);
  }
}

TEST(OutputParserMistral, ReadsCalls) {
  const ToolFormat format = ToolFormat::kMistral;
  ExpectCalls(format,
              R"([TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Bern", "days": 2}}, )"
              R"({"name": "time", "arguments": {}, "id": "abcdefghi"}])",
              {kWeather, kTime});
  ExpectCalls(format, R"(Hi [TOOL_CALLS] [{"name": "time", "arguments": {}}])", {kTime}, "Hi");
  ExpectCalls(format,
              R"([TOOL_CALLS]get_weather[ARGS]{"city": "Bern", "days": 2}[TOOL_CALLS]time[ARGS]{})",
              {kWeather, kTime});
  ExpectCalls(format, "[TOOL_CALLS]time[CALL_ID]abcdefghi[ARGS]{}", {kTime});
  ExpectCalls(format, "[TOOL_CALLS]time{}", {kTime});
  for (const std::string_view text :
       {"[TOOL_CALLS]", "[TOOL_CALLS]time", "[TOOL_CALLS]time[ARGS]{", "[TOOL_CALLS]time[X]{}",
        "[TOOL_CALLS][{}]", "[TOOL_CALLS]{}", "[TOOL_CALLS]two words{}", "[TOOL_CALLS]f[ARGS]{x}",
        "[TOOL_CALL", "a [T [TOOL"}) {
    ExpectContent(format, text);
  }
}

TEST(OutputParserDeepSeek, ReadsCallsOfVersion31) {
  const ToolFormat format = ToolFormat::kDeepSeek;
  ExpectCalls(format,
              "Look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
              R"({"city": "Bern", "days": 2})"
              "<｜tool▁call▁end｜><｜tool▁call▁begin｜>time<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
              "<｜tool▁calls▁end｜>",
              {kWeather, kTime}, "Look.");
}

TEST(OutputParserDeepSeek, ReadsCallsOfVersion3) {
  const ToolFormat format = ToolFormat::kDeepSeek;
  const std::string begin = "<｜tool▁calls▁begin｜>", end = "<｜tool▁calls▁end｜>";
  const auto call = [](std::string_view name, std::string_view arguments) {
    return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + std::string(name) + "\n```json\n" +
           std::string(arguments) + "\n```<｜tool▁call▁end｜>";
  };
  const std::string weather = call("get_weather", R"({"city": "Bern", "days": 2})");
  const std::string time = call("time", "{}");
  ExpectCalls(format, begin + weather + "\n" + time + end, {kWeather, kTime});
  ExpectCalls(format, begin + time, {kTime});
  // The parser returns the tool calls before a malformed tool call.
  const std::string bad = call("f", "{");
  ExpectCalls(format, begin + time + bad + " x", {kTime}, bad + " x");
  ExpectCalls(format, begin + time + "<｜tool▁call▁begin｜>x", {kTime}, "<｜tool▁call▁begin｜>x");
  ExpectCalls(format, begin + bad + begin + time + end, {kTime}, begin + bad);
  ExpectContent(format, begin + end);
  ExpectContent(format, begin + "\n" + bad + end);
  ExpectContent(format, begin);
  ExpectContent(format, "a ｜ <｜to");
}

TEST(OutputParserKimi, ReadsCalls) {
  ExpectCalls(ToolFormat::kKimi,
              "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
              "<|tool_call_argument_begin|>{\"city\": \"Bern\", \"days\": 2}<|tool_call_end|>"
              "<|tool_call_begin|>functions.time:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
              "<|tool_calls_section_end|>",
              {kWeather, kTime});
  ExpectContent(ToolFormat::kKimi,
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.time:1"
                "<|tool_call_argument_begin|>{}");
}

TEST(OutputParserQwenXml, ReadsCalls) {
  const ToolFormat format = ToolFormat::kQwenXml;
  const std::string weather =
      "<tool_call>\n<function=get_weather>\n<parameter=city>\nBern\n</parameter>\n"
      "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>";
  const std::string time = "<tool_call>\n<function=time>\n</function>\n</tool_call>";
  ExpectCalls(format, "I look.\n" + weather + "\n" + time, {kWeather, kTime}, "I look.");
  ExpectCalls(format, "<tool_call><function=time></function></tool", {kTime});
  for (const std::string_view text :
       {"<tool_call>\n<function=f>\n</tool_call>",
        "<tool_call><function=f><parameter=a>x</function></tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "<tool_call><function=f>",
        "<tool_call><function=f></function> x</tool_call>", "<tool_call> text",
        "<tool_call><function=f><parameter=a>1</parameter><parameter=a>2</parameter></function></"
        "tool_call>"}) {
    ExpectContent(format, text);
  }
}

TEST(OutputParserQwenXml, ConvertsValues) {
  const auto value_of = [](std::string_view value, const StringParameters* strings) {
    const std::string text = "<tool_call>\n<function=f>\n<parameter=a>\n" + std::string(value) +
                             "\n</parameter>\n</function>\n</tool_call>";
    const ParsedText parsed = ParseWhole({.tools = ToolFormat::kQwenXml, .strings = strings}, text);
    return parsed.calls.size() == 1 ? parsed.calls[0].arguments_json : "no call";
  };
  EXPECT_EQ(value_of("12", nullptr), R"({"a":12})");
  EXPECT_EQ(value_of("true", nullptr), R"({"a":true})");
  EXPECT_EQ(value_of("True", nullptr), R"({"a":true})");
  EXPECT_EQ(value_of("None", nullptr), R"({"a":null})");
  EXPECT_EQ(value_of("[1, {\"b\": 2}]", nullptr), R"({"a":[1,{"b":2}]})");
  EXPECT_EQ(value_of("{'b': True}", nullptr), R"({"a":{"b":true}})");
  EXPECT_EQ(value_of("+41", nullptr), R"({"a":"+41"})");
  EXPECT_EQ(value_of("\"quoted\"", nullptr), R"({"a":"\"quoted\""})");
  EXPECT_EQ(value_of("two\n\nlines\n", nullptr), R"({"a":"two\n\nlines\n"})");
  EXPECT_EQ(value_of("", nullptr), R"({"a":""})");
  const StringParameters strings(nlohmann::ordered_json::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters":
          {"type": "object", "properties": {"a": {"type": "string"}}}}}])"));
  EXPECT_EQ(value_of("12", &strings), R"({"a":"12"})");
  EXPECT_EQ(value_of("{}", &strings), R"({"a":"{}"})");
}

TEST(OutputParserTags, ReadsCallsOfSeedMiniMaxAndGlm) {
  ExpectCalls(ToolFormat::kSeedXml,
              "\n<seed:tool_call>\n<function=get_weather>\n<parameter=city>Bern</parameter>\n"
              "<parameter=days>2</parameter>\n</function>\n</seed:tool_call>",
              {kWeather});
  ExpectCalls(ToolFormat::kMiniMaxXml,
              "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Bern"
              "</parameter>\n<parameter name=\"days\">2</parameter>\n</invoke>\n"
              "<invoke name=\"time\">\n</invoke>\n</minimax:tool_call>",
              {kWeather, kTime});
  ExpectCalls(ToolFormat::kGlm,
              "\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n"
              "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n"
              "<tool_call>time\n</tool_call>",
              {kWeather, kTime});
  for (const std::string_view text :
       {"<tool_call>two words</tool_call>", "<tool_call></tool_call>",
        "<tool_call>f\n<arg_key>a</arg_key>\n</tool_call>",
        "<tool_call>f\n<arg_key>a</arg_key><arg_value>1</arg_value> x</tool_call>"}) {
    ExpectContent(ToolFormat::kGlm, text);
  }
}

TEST(OutputParserLists, ReadsCallsOfNemotronAndGranite) {
  constexpr std::string_view kList = R"([{"name": "time", "arguments": {}}, )"
                                     R"({"name": "time", "arguments": {}}])";
  const std::string list(kList);
  ExpectCalls(ToolFormat::kNemotron, "<TOOLCALL>" + list + "</TOOLCALL>", {kTime, kTime});
  ExpectCalls(ToolFormat::kGranite, "<|tool_call|>" + list, {kTime, kTime});
  ExpectContent(ToolFormat::kNemotron, "<TOOLCALL>" + list + "</TOOL>");
  ExpectContent(ToolFormat::kGranite, "<|tool_call|>" + list.substr(0, list.size() - 1));
}

TEST(OutputParserReasoning, SplitsReasoningFromContent) {
  const ParserOptions closed = {.reasoning = ReasoningFormat::kThink};
  const ParserOptions open = {.reasoning = ReasoningFormat::kThink, .begins_in_reasoning = true};
  const ParsedText both = {.reasoning = "R 1\n\nR 2", .content = "C 1\n "};
  EXPECT_EQ(Parse(closed, "<think>\nR 1\n\nR 2\n</think>\n\nC 1\n "), both);
  EXPECT_EQ(Parse(closed, "\n<think>R 1\n\nR 2</think>C 1\n "), both);
  EXPECT_EQ(Parse(open, "\nR 1\n\nR 2\n</think>\n\nC 1\n "), both);
  EXPECT_EQ(Parse(open, "<think>\nR 1\n\nR 2\n</think>\n\nC 1\n "), both);
  EXPECT_EQ(Parse(closed, "<think>\n\n</think>\n\nC"), ParsedText({.content = "C"}));
  EXPECT_EQ(Parse(closed, "<think></think>\n"), ParsedText());
  // The reasoning is not closed.
  EXPECT_EQ(Parse(closed, "<think>R </thin"), ParsedText({.reasoning = "R </thin"}));
  EXPECT_EQ(Parse(open, "R \n"), ParsedText({.reasoning = "R \n"}));
  EXPECT_EQ(Parse(open, "<thi"), ParsedText({.reasoning = "<thi"}));
  // Tags elsewhere are text.
  for (const std::string_view text :
       {"A <think>R</think>", "<thinking>", "<thi", "  text", " ", "A</think>"}) {
    EXPECT_EQ(Parse(closed, text), ParsedText({.content = std::string(text)}));
  }
  EXPECT_EQ(Parse(open, "R</think>A <think>B</think>"),
            ParsedText({.reasoning = "R", .content = "A <think>B</think>"}));
  EXPECT_EQ(Parse({}, " <think>R</think>"), ParsedText({.content = " <think>R</think>"}));
  EXPECT_EQ(Parse({.reasoning = ReasoningFormat::kSeedThink}, "<seed:think>R</seed:think>C"),
            ParsedText({.reasoning = "R", .content = "C"}));
}

TEST(OutputParserReasoning, ReadsCallsAfterTheReasoning) {
  const auto parse = [](ToolFormat format, std::string_view text) {
    return Parse(
        {.tools = format, .reasoning = ReasoningFormat::kThink, .begins_in_reasoning = true}, text);
  };
  const std::string call = R"({"name": "time", "arguments": {}})";
  const ParsedText expected = {.reasoning = "R", .calls = {kTime}};
  EXPECT_EQ(parse(ToolFormat::kHermes, "R\n</think>\n\n<tool_call>" + call + "</tool_call>"),
            expected);
  EXPECT_EQ(parse(ToolFormat::kJson, "R\n</think>\n\n" + call), expected);
  // A tool call inside the reasoning is part of the reasoning.
  const std::string inside = "<tool_call>" + call + "</tool_call>";
  EXPECT_EQ(parse(ToolFormat::kHermes, inside + "</think>C"),
            ParsedText({.reasoning = inside, .content = "C"}));
}

// If the output ends within a tool call in GLM's format, the name may be incomplete or arguments
// may be missing. Such a tool call is therefore content.
TEST(OutputParserTest, AGlmCallThatIsCutOffStaysContent) {
  for (const std::string_view text :
       {"<tool_call>get_wea", "<tool_call>rm\n<arg_key>a</arg_key><arg_value>b</arg_value>"}) {
    OutputParser parser(ToolFormat::kGlm, ReasoningFormat::kNone, /*begins_in_reasoning=*/false,
                        /*has_tools=*/true);
    ParsedText parsed = parser.Push(text);
    const ParsedText end = parser.Finish();
    EXPECT_TRUE(parsed.calls.empty() && end.calls.empty());
    EXPECT_EQ(parsed.content + end.content, text);
  }
}

}  // namespace
}  // namespace incipit
