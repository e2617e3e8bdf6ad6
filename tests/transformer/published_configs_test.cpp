// Tests the parser of model configurations with the configuration files of published models.
#include <filesystem>
#include <map>
#include <string>

#include "base/json/json.h"
#include "base/mapped_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transformer/config.h"
#include "transformer/rope.h"
#include "transformer/tensor_names.h"

namespace incipit {
namespace {

using testing::Each;
using testing::ElementsAre;

class PublishedConfigsTest : public testing::Test {
 protected:
  ModelConfig Read(const std::string& name) const {
    const auto text = ReadTextFile(folder_ / (name + ".json"));
    EXPECT_TRUE(text.ok()) << text.status();
    const auto config = ParseModelConfig(*text, "");
    EXPECT_TRUE(config.ok()) << name << ": " << config.status();
    return config.ok() ? *config : ModelConfig();
  }

  static int64_t NumParameters(const ModelConfig& config) {
    int64_t count = 0;
    for (const ExpectedTensor& tensor : ExpectedTensors(config)) {
      int64_t size = 1;
      for (const int64_t length : tensor.shape) size *= length;
      count += size;
    }
    const int64_t embedding = int64_t{config.vocab_size} * config.hidden_size;
    return count + (config.tied_embeddings ? embedding : 2 * embedding);
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(INCIPIT_SOURCE_DIR) / "tests/data/configs";
};

TEST_F(PublishedConfigsTest, HaveTheNumberOfParametersThatTheyAreKnownFor) {
  const std::map<std::string, int64_t> expected = {
      {"llama-2-7b", 6738415616},
      {"llama-3-8b", 8030261248},
      {"llama-3.1-70b-instruct", 70553706496},
      {"llama-3.1-8b-instruct", 8030261248},
      {"llama-3.1-8b-instruct-new-keys", 8030261248},
      {"llama-3.2-1b-instruct", 1235814400},
      {"mistral-7b-instruct-v0.3", 7248023552},
      {"mistral-7b-v0.1", 7241732096},
      {"qwen2.5-0.5b-instruct", 494032768},
      {"qwen2.5-7b-instruct", 7615616512},
      {"qwen3-0.6b", 596049920},
      {"qwen3-8b", 8190735360},
      {"qwen3-8b-yarn", 8190735360},
  };
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem();
    ASSERT_TRUE(expected.contains(name)) << name;
    EXPECT_EQ(NumParameters(Read(name)), expected.at(name)) << name;
  }
}

TEST_F(PublishedConfigsTest, TheNewerSpellingMeansTheSame) {
  const ModelConfig older = Read("llama-3.1-8b-instruct");
  const ModelConfig newer = Read("llama-3.1-8b-instruct-new-keys");
  EXPECT_EQ(newer.dtype, DType::kBF16);
  EXPECT_EQ(newer.dtype, older.dtype);
  EXPECT_EQ(newer.rope.type, RopeType::kLlama3);
  EXPECT_EQ(InverseFrequencies(newer.rope, newer.head_dim),
            InverseFrequencies(older.rope, older.head_dim));
  EXPECT_THAT(newer.eos_ids, ElementsAre(128001, 128008, 128009));
}

TEST_F(PublishedConfigsTest, KeepWhatSetsThemApart) {
  EXPECT_THAT(Read("mistral-7b-v0.1").layer_windows, Each(4096));
  EXPECT_THAT(Read("mistral-7b-instruct-v0.3").layer_windows, Each(0));
  EXPECT_THAT(Read("qwen2.5-7b-instruct").layer_windows, Each(0));
  EXPECT_TRUE(Read("qwen2.5-0.5b-instruct").tied_embeddings);
  EXPECT_TRUE(Read("qwen2.5-0.5b-instruct").qkv_bias);
  EXPECT_TRUE(Read("qwen3-0.6b").qk_norm);
  EXPECT_EQ(Read("qwen3-0.6b").head_dim, 128);
  EXPECT_EQ(Read("llama-3.2-1b-instruct").head_dim, 64);
  EXPECT_EQ(Read("llama-3-8b").rope.theta, 500000);
  const RopeConfig yarn = Read("qwen3-8b-yarn").rope;
  EXPECT_EQ(yarn.type, RopeType::kYarn);
  EXPECT_EQ(yarn.original_max_positions, 32768);
  // The formula of YaRN for the factor 4: 0.1 * ln(4) + 1.
  EXPECT_FLOAT_EQ(RopeAttentionFactor(yarn), 1.1386294F);
}

}  // namespace
}  // namespace incipit
