#include "text/chat/tool_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "tests/text/chat/parse_output.h"
#include "text/chat/chat_template.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

struct TemplateFormats {
  std::string name;
  ToolFormat tools;
  ReasoningFormat reasoning;
  // True if a prompt with a user message ends with the tag that opens the reasoning.
  bool begins_in_reasoning = false;
  // False if the template refuses the tool calls of earlier outputs or does not render them.
  bool renders_calls = true;
};

// Published chat templates from the folders tests/data/chat_templates and INCIPIT_TEST_DATA.
const TemplateFormats kTemplates[] = {
    {"ByteDance-Seed-OSS", ToolFormat::kSeedXml, ReasoningFormat::kSeedThink},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", ToolFormat::kNone, ReasoningFormat::kNone},
    {"GLM-4.6", ToolFormat::kGlm, ReasoningFormat::kThink},
    {"HuggingFaceTB-SmolLM3-3B", ToolFormat::kNone, ReasoningFormat::kThink},
    {"Kimi-K2-Instruct", ToolFormat::kKimi, ReasoningFormat::kNone, false, false},
    {"MiniMax-M2", ToolFormat::kMiniMaxXml, ReasoningFormat::kThink, true},
    {"Mistral-Small-3.2-24B-Instruct-2506", ToolFormat::kMistral, ReasoningFormat::kNone},
    {"NVIDIA-Nemotron-Nano-v2", ToolFormat::kNemotron, ReasoningFormat::kThink, true},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", ToolFormat::kHermes, ReasoningFormat::kNone},
    {"Qwen-QwQ-32B", ToolFormat::kHermes, ReasoningFormat::kThink, true},
    {"Qwen-Qwen2.5-7B-Instruct", ToolFormat::kHermes, ReasoningFormat::kNone},
    {"Qwen-Qwen3-0.6B", ToolFormat::kHermes, ReasoningFormat::kThink},
    {"Qwen3-Coder", ToolFormat::kQwenXml, ReasoningFormat::kNone},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", ToolFormat::kDeepSeek, ReasoningFormat::kThink,
     true},
    {"deepseek-ai-DeepSeek-V3.1", ToolFormat::kDeepSeek, ReasoningFormat::kThink, true},
    {"google-gemma-2-2b-it", ToolFormat::kNone, ReasoningFormat::kNone},
    {"ibm-granite-granite-3.3-2B-Instruct", ToolFormat::kGranite, ReasoningFormat::kThink, false,
     false},
    {"meetkai-functionary-medium-v3.1", ToolFormat::kNone, ReasoningFormat::kNone},
    {"meta-llama-Llama-3.1-8B-Instruct", ToolFormat::kLlamaJson, ReasoningFormat::kNone},
    {"meta-llama-Llama-3.2-3B-Instruct", ToolFormat::kLlamaJson, ReasoningFormat::kNone},
    {"microsoft-Phi-3.5-mini-instruct", ToolFormat::kNone, ReasoningFormat::kNone},
    {"mistralai-Mistral-Nemo-Instruct-2407", ToolFormat::kMistral, ReasoningFormat::kNone},
    {"openai-gpt-oss-120b", ToolFormat::kNone, ReasoningFormat::kNone},
    {"unsloth-mistral-Devstral-Small-2507", ToolFormat::kMistral, ReasoningFormat::kNone},
};

std::filesystem::path BundledTemplates() {
  return std::filesystem::path(INCIPIT_SOURCE_DIR) / "tests/data/chat_templates";
}

// Returns the source text of the template `name`, from tests/data or from INCIPIT_TEST_DATA.
// Returns nullopt if neither folder has the template.
std::optional<std::string> SourceOf(const std::string& name) {
  std::vector<std::filesystem::path> folders = {BundledTemplates()};
  if (const char* more = std::getenv("INCIPIT_TEST_DATA")) {
    folders.push_back(std::filesystem::path(more) / "chat_templates");
  }
  for (const std::filesystem::path& folder : folders) {
    std::ifstream file(folder / (name + ".jinja"), std::ios::binary);
    if (file) return std::string(std::istreambuf_iterator<char>(file), {});
  }
  return std::nullopt;
}

Json Variables(Json messages, bool add_generation_prompt) {
  return {{"messages", std::move(messages)},
          {"add_generation_prompt", add_generation_prompt},
          {"enable_thinking", true},
          {"bos_token", "<s>"},
          {"eos_token", "</s>"}};
}

TEST(DetectOutputFormats, KnowsThePublishedTemplates) {
  for (const auto& entry : std::filesystem::directory_iterator(BundledTemplates())) {
    if (entry.path().extension() != ".jinja") continue;
    EXPECT_TRUE(std::ranges::any_of(kTemplates, [&](const TemplateFormats& one) {
      return one.name == entry.path().stem();
    })) << entry.path();
  }
  for (const TemplateFormats& expected : kTemplates) {
    const std::optional<std::string> source = SourceOf(expected.name);
    if (!source) continue;
    const OutputFormats formats = DetectOutputFormats(*source);
    EXPECT_EQ(NameIn(kToolFormatNames, formats.tools), NameIn(kToolFormatNames, expected.tools))
        << expected.name;
    EXPECT_EQ(NameIn(kReasoningFormatNames, formats.reasoning),
              NameIn(kReasoningFormatNames, expected.reasoning))
        << expected.name;
  }
}

TEST(DetectOutputFormats, DetectsPythonicCalls) {
  EXPECT_EQ(
      DetectOutputFormats("in the format of [func_name1(params_name1=params_value1, ...)]").tools,
      ToolFormat::kPythonic);
  EXPECT_EQ(DetectOutputFormats("").tools, ToolFormat::kNone);
  EXPECT_EQ(DetectOutputFormats("<think>").reasoning, ReasoningFormat::kNone);
}

TEST(BeginsInReasoning, FollowsThePublishedTemplates) {
  for (const TemplateFormats& expected : kTemplates) {
    const std::optional<std::string> source = SourceOf(expected.name);
    if (!source) continue;
    const absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(*source);
    ASSERT_TRUE(parsed.ok()) << expected.name;
    const Json messages = {{{"role", "user"}, {"content", "What is <think>?"}}};
    const auto prompt = parsed->Render(Variables(messages, /*add_generation_prompt=*/true));
    ASSERT_TRUE(prompt.ok()) << expected.name << ": " << prompt.status();
    EXPECT_EQ(BeginsInReasoning(prompt->text, prompt->literal_ranges, expected.reasoning),
              expected.begins_in_reasoning)
        << expected.name << ": " << prompt->text;
  }
}

TEST(BeginsInReasoning, IgnoresTagsOfTheRequest) {
  const auto begins = [](std::string_view prompt, std::vector<ByteRange> literal = {}) {
    return BeginsInReasoning(prompt, literal, ReasoningFormat::kThink);
  };
  EXPECT_TRUE(begins("user<think>\n"));
  EXPECT_TRUE(begins("<think>a</think>b<think>"));
  EXPECT_TRUE(begins("<think>started", {{7, 14}}));
  EXPECT_FALSE(begins("<think>a</think>"));
  EXPECT_FALSE(begins(""));
  EXPECT_FALSE(begins("a<think>b", {{0, 9}}));
  EXPECT_FALSE(begins("a<think>b", {{0, 4}}));
  EXPECT_FALSE(begins("a<think>b", {{7, 8}}));
  EXPECT_TRUE(begins("<think> <think>", {{8, 15}}));
  EXPECT_TRUE(begins("x<think>y<think>z", {{0, 1}, {8, 17}}));
  EXPECT_FALSE(BeginsInReasoning("<think>", {}, ReasoningFormat::kNone));
}

// A chat template renders the tool calls of earlier outputs in the format in which the model writes
// tool calls. The parser must therefore be able to read the rendered tool calls.
TEST(OutputParser, ReadsCallsThatTheTemplatesRender) {
  const std::string arguments = R"({"city":"Bern \u003c b","days":2})";
  size_t num_templates = 0;
  for (const TemplateFormats& one : kTemplates) {
    const std::optional<std::string> source = SourceOf(one.name);
    if (!source || one.tools == ToolFormat::kNone || !one.renders_calls) continue;
    const absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(*source);
    ASSERT_TRUE(parsed.ok()) << one.name;
    // The template of DeepSeek-R1 needs the arguments of a tool call as a string, not as a JSON
    // object.
    const bool as_text = one.name.find("-R1-") != std::string::npos;
    Json call = {{"id", "abcdefghi"}, {"type", "function"}};
    call["function"] = {{"name", "get_weather"},
                        {"arguments", as_text ? Json(arguments) : Json::parse(arguments)}};
    Json messages = {{{"role", "user"}, {"content", "Weather?"}}};
    messages.push_back({{"role", "assistant"},
                        {"content", as_text ? Json(nullptr) : Json("")},
                        {"tool_calls", {call}}});
    const auto prompt = parsed->Render(Variables(messages, /*add_generation_prompt=*/false));
    ASSERT_TRUE(prompt.ok()) << one.name << ": " << prompt.status();
    const std::string_view begin = one.tools == ToolFormat::kLlamaJson
                                       ? R"({"name": "get_weather")"
                                       : CallBeginOf(one.tools).marker;
    const size_t position = prompt->text.rfind(begin);
    ASSERT_NE(position, std::string::npos) << one.name << prompt->text;
    const std::string output = prompt->text.substr(position);
    const ParsedText text = ParseWhole({.tools = one.tools}, output);
    ASSERT_EQ(text.calls.size(), 1u) << one.name << ": " << output;
    EXPECT_EQ(text.calls[0].name, "get_weather");
    EXPECT_EQ(Json::parse(text.calls[0].arguments_json), Json::parse(arguments)) << output;
    EXPECT_EQ(text.content.find("get_weather"), std::string::npos) << text.content;
    ++num_templates;
  }
  EXPECT_GE(num_templates, 9u);
}

}  // namespace
}  // namespace incipit
