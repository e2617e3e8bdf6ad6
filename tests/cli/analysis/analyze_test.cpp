#include "cli/analysis/analyze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/cli/command_run.h"

namespace incipit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class AnalyzeTest : public CommandTest {
 protected:
  int Analyze(const std::vector<std::string>& arguments, const std::string& log) {
    WriteFile("log.jsonl", log);
    std::vector<std::string> all = {folder() + "/log.jsonl"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return Run(&RunAnalyze, all, "");
  }
  nlohmann::json Json() const { return nlohmann::json::parse(OutLines().at(0)); }
  std::string Text() const {
    std::string text;
    for (const std::string& line : OutLines()) text += line + "\n";
    return text;
  }
  std::string ReadFile(const std::string& name) const {
    std::ifstream file(folder() + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

constexpr const char* kHashLog =
    "{\"timestamp\": 0, \"input_length\": 1500, \"output_length\": 9, \"hash_ids\": [1, 2, 3]}\n"
    "{\"timestamp\": 8000, \"input_length\": 1400, \"hash_ids\": [1, 2, 4]}\n";

TEST_F(AnalyzeTest, TablesSayWhatACacheSavesAndHowLargeItMustBe) {
  ASSERT_EQ(Analyze({}, kHashLog), kExitOk) << err();
  EXPECT_EQ(err(), "");
  EXPECT_THAT(Text(), AllOf(HasSubstr("requests              2 in 8 s\n"),
                            HasSubstr("prompt tokens         2,900\n"),
                            HasSubstr("output tokens         9\n"),
                            HasSubstr("\nSavings of a cache without a size limit\n"),
                            HasSubstr("\nCache size needed for a percentage of the possible hits"),
                            HasSubstr("\nWorking set: distinct blocks of 512 tokens")));
}

TEST_F(AnalyzeTest, JsonHasTheSameFigures) {
  ASSERT_EQ(Analyze({"--json"}, kHashLog), kExitOk) << err();
  const auto json = Json();
  EXPECT_EQ(json["log"], folder() + "/log.jsonl");
  EXPECT_EQ(json["requests"], 2);
  EXPECT_EQ(json["duration_s"], 8);
  EXPECT_EQ(json["output_tokens"], 9);
  EXPECT_EQ(json["block_sizes"][0]["attainable"]["tokens"], 1024);
  EXPECT_EQ(json["block_sizes"][0]["needed"][0]["blocks"], 1);
  EXPECT_TRUE(json["bytes_per_token"].is_null());
}

TEST_F(AnalyzeTest, TextsAreCutIntoTokens) {
  WriteFile("tokenizer.json", kTinyTokenizerJson);
  const std::string log = "\"abababab\"\n{\"prompt\": \"abababab\"}\n{\"text\": \"abba\"}\n";
  ASSERT_EQ(Analyze({"--json", "--tokenizer", folder(), "--block-size", "2"}, log), kExitOk)
      << err();
  // The tokens of the prompts are (<s> ab ab ab ab) twice, and then (<s> ab b a).
  EXPECT_EQ(Json()["prompt_tokens"], 14);
  EXPECT_EQ(Json()["block_sizes"][0]["attainable"]["tokens"], 6);
  EXPECT_EQ(Json()["sharing"]["top_prefixes"][0]["begins_with"], "<s>ab");
  EXPECT_EQ(Analyze({}, log), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("log.jsonl:1: prompt is a text, which needs --tokenizer"));
}

TEST_F(AnalyzeTest, ItReadsWhatTokenizeWrites) {
  ASSERT_EQ(Run(&RunAnalyze, {"-", "--json", "--block-size=2"}, "[0,3,3]\n[0,3,1]\n"), kExitOk)
      << err();
  EXPECT_EQ(Json()["log"], "stdin");
  EXPECT_EQ(Json()["block_sizes"][0]["attainable"]["tokens"], 2);
}

TEST_F(AnalyzeTest, AModelsConfigurationGivesTheBytesOfAToken) {
  WriteFile("config.json", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16"})");
  ASSERT_EQ(Analyze({"--json", "--model", folder()}, kHashLog), kExitOk) << err();
  EXPECT_EQ(Json()["bytes_per_token"], 2 * 3 * 2 * 16 * 2);
  ASSERT_EQ(Analyze({"--json", "--model", folder(), "--kv-dtype", "f32"}, kHashLog), kExitOk);
  EXPECT_EQ(Json()["bytes_per_token"], 2 * 3 * 2 * 16 * 4);
  ASSERT_EQ(Analyze({"--json", "--bytes-per-token", "1000"}, kHashLog), kExitOk);
  EXPECT_EQ(Json()["bytes_per_token"], 1000);
  EXPECT_EQ(Analyze({"--model", folder() + "/none"}, kHashLog), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("none"));
}

TEST_F(AnalyzeTest, PlotsAreWrittenIntoAFolderThatIsMade) {
  ASSERT_EQ(Analyze({"--svg", folder() + "/new/plots"}, kHashLog), kExitOk) << err();
  for (const char* const name : {"hit_ratio.svg", "working_set.svg", "shared_prefix.svg"}) {
    const std::string svg = ReadFile(std::string("new/plots/") + name);
    EXPECT_THAT(svg, StartsWith("<svg ")) << name;
    EXPECT_TRUE(svg.ends_with("</svg>\n")) << name;
  }
  EXPECT_EQ(Analyze({"--svg", folder() + "/log.jsonl"}, kHashLog), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("/log.jsonl"));
}

TEST_F(AnalyzeTest, AWrongLogIsNamedWithItsLine) {
  const auto error_of = [&](const std::string& log) {
    EXPECT_EQ(Analyze({}, log), kExitFailure);
    EXPECT_TRUE(OutLines().empty());
    return err();
  };
  EXPECT_THAT(error_of(std::string(kHashLog) + "{\"hash_ids\": [1, \"2\"]}\n"),
              HasSubstr("log.jsonl:3: hash_ids"));
  EXPECT_THAT(error_of(std::string(kHashLog) + "\n[1, 2]\n"),
              HasSubstr("log.jsonl:4: the prompt consists of tokens, but the prompt in line 1 "
                        "consists of hash ids"));
  EXPECT_THAT(error_of("[1, 2\n"), HasSubstr("log.jsonl:1: not valid JSON"));
  EXPECT_THAT(error_of(""), HasSubstr("log.jsonl has no request"));
  EXPECT_EQ(Run(&RunAnalyze, {folder() + "/none.jsonl"}, ""), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("none.jsonl"));
  EXPECT_EQ(Run(&RunAnalyze, {folder()}, ""), kExitFailure);
  EXPECT_THAT(err(), HasSubstr(folder()));
}

TEST_F(AnalyzeTest, AWrongFlagIsNamedAndNothingIsDone) {
  const auto error_of = [&](const std::vector<std::string>& arguments) {
    EXPECT_EQ(Run(&RunAnalyze, arguments, ""), kExitUsage);
    EXPECT_TRUE(OutLines().empty());
    return err();
  };
  EXPECT_THAT(error_of({}), HasSubstr("LOG is missing"));
  EXPECT_THAT(error_of({"a", "b"}),
              HasSubstr("only one LOG is allowed; remove the argument \"b\""));
  EXPECT_THAT(error_of({"a", "--block-size", "0"}), HasSubstr("--block-size"));
  EXPECT_THAT(error_of({"a", "--block-sice", "16"}), HasSubstr("--block-size"));
  EXPECT_THAT(error_of({"a", "--model", "m", "--bytes-per-token", "1"}), HasSubstr("exclude"));
  EXPECT_THAT(error_of({"a", "--kv-dtype", "f16"}), HasSubstr("--kv-dtype needs --model"));
  EXPECT_THAT(error_of({"a", "--time-unit", "min"}), HasSubstr("--time-unit"));
}

TEST_F(AnalyzeTest, HelpTeachesTheForms) {
  EXPECT_EQ(Run(&RunAnalyze, {"--help"}, ""), kExitOk);
  EXPECT_THAT(Text(), AllOf(HasSubstr("hash_ids"), HasSubstr("token_ids"), HasSubstr("--svg"),
                            HasSubstr("tokens that each hash id stands for")));
}

}  // namespace
}  // namespace incipit
