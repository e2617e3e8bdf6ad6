#include "engine/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/cpu/backend.h"
#include "kernels/numerics_version.h"
#include "kernels/reference/backend.h"

namespace incipit {
namespace {

using testing::HasSubstr;

class FingerprintTest : public testing::Test {
 protected:
  FingerprintTest() {
    model_.architecture = "LlamaForCausalLM";
    model_.hidden_size = 64;
    model_.intermediate_size = 128;
    model_.num_layers = 2;
    model_.num_heads = 4;
    model_.num_kv_heads = 2;
    model_.head_dim = 16;
    model_.vocab_size = 100;
    model_.max_positions = 128;
    model_.rms_norm_epsilon = 1e-5F;
    model_.layer_windows = {0, 0};
    parts_.model = &model_;
    parts_.chunk = {.block_size = 16, .blocks_per_chunk = 8, .block_bytes = 4096};
    parts_.backend = "cpu";
    parts_.numerics = "avx2";
  }

  // Applies each change to a copy of the parts. Fails the test if two fingerprints are equal.
  void ExpectAllDiffer(const std::vector<std::function<void(FingerprintParts&)>>& changes) const {
    std::set<Fingerprint> fingerprints = {FingerprintOf(parts_)};
    for (size_t i = 0; i < changes.size(); ++i) {
      FingerprintParts changed = parts_;
      changes[i](changed);
      EXPECT_TRUE(fingerprints.insert(FingerprintOf(changed)).second) << "change " << i;
    }
  }
  // As ExpectAllDiffer, for changes of the model's configuration.
  void ExpectAllModelsDiffer(const std::vector<std::function<void(ModelConfig&)>>& changes) const {
    std::set<Fingerprint> fingerprints = {FingerprintOf(parts_)};
    for (size_t i = 0; i < changes.size(); ++i) {
      ModelConfig model = model_;
      changes[i](model);
      FingerprintParts changed = parts_;
      changed.model = &model;
      EXPECT_TRUE(fingerprints.insert(FingerprintOf(changed)).second) << "change " << i;
    }
  }

  ModelConfig model_;
  FingerprintParts parts_;
};

TEST_F(FingerprintTest, EachPartChangesTheFingerprint) {
  ExpectAllDiffer({[](FingerprintParts& p) { p.weights[15] ^= 1; },
                   [](FingerprintParts& p) { p.weights[0] ^= 0x80; },
                   [](FingerprintParts& p) { p.weight_format = WeightFormat::kInt8; },
                   [](FingerprintParts& p) { p.kv_dtype = DType::kBF16; },
                   [](FingerprintParts& p) { p.chunk.block_size = 32; },
                   [](FingerprintParts& p) { p.chunk.blocks_per_chunk = 4; },
                   [](FingerprintParts& p) { p.chunk.block_bytes = 8192; },
                   [](FingerprintParts& p) { p.backend = "cuda"; },
                   [](FingerprintParts& p) { p.numerics = "avx512"; },
                   [](FingerprintParts& p) { p.shard = {.index = 0, .count = 2}; },
                   [](FingerprintParts& p) { p.shard = {.index = 1, .count = 2}; }});
}

TEST_F(FingerprintTest, EachPartOfTheModelChangesTheFingerprint) {
  ExpectAllModelsDiffer({[](ModelConfig& m) { m.architecture = "MistralForCausalLM"; },
                         [](ModelConfig& m) { m.hidden_size = 128; },
                         [](ModelConfig& m) { m.intermediate_size = 256; },
                         [](ModelConfig& m) { m.num_layers = 3; },
                         [](ModelConfig& m) { m.num_heads = 8; },
                         [](ModelConfig& m) { m.num_kv_heads = 4; },
                         [](ModelConfig& m) { m.head_dim = 32; },
                         [](ModelConfig& m) { m.vocab_size = 101; },
                         [](ModelConfig& m) { m.max_positions = 129; },
                         [](ModelConfig& m) { m.rms_norm_epsilon = 1.0001e-5F; },
                         [](ModelConfig& m) { m.tied_embeddings = true; },
                         [](ModelConfig& m) { m.qkv_bias = true; },
                         [](ModelConfig& m) { m.output_bias = true; },
                         [](ModelConfig& m) { m.mlp_bias = true; },
                         [](ModelConfig& m) { m.qk_norm = true; },
                         [](ModelConfig& m) {
                           m.layer_windows = {0, 64};
                         },
                         [](ModelConfig& m) {
                           m.layer_windows = {64, 0};
                         },
                         [](ModelConfig& m) { m.rope.type = RopeType::kLinear; },
                         [](ModelConfig& m) { m.rope.theta = 10000.000001; },
                         [](ModelConfig& m) { m.rope.factor = 2; },
                         [](ModelConfig& m) { m.rope.original_max_positions = 64; },
                         [](ModelConfig& m) { m.rope.low_freq_factor = 2; },
                         [](ModelConfig& m) { m.rope.high_freq_factor = 5; },
                         [](ModelConfig& m) { m.rope.beta_fast = 33; },
                         [](ModelConfig& m) { m.rope.beta_slow = 2; },
                         [](ModelConfig& m) { m.rope.attention_factor = 0; },
                         [](ModelConfig& m) { m.rope.mscale = 0; },
                         [](ModelConfig& m) { m.rope.mscale_all_dim = 0; },
                         [](ModelConfig& m) { m.rope.truncate = false; }});
}

TEST_F(FingerprintTest, EndOfSequenceTokensDoNotChangeTheFingerprint) {
  const Fingerprint before = FingerprintOf(parts_);
  model_.eos_ids = {7};
  EXPECT_EQ(FingerprintOf(parts_), before);
}

TEST_F(FingerprintTest, TheTextNamesTheVersions) {
  const std::string text = FingerprintText(parts_);
  EXPECT_THAT(text, HasSubstr(fmt::format("numerics_version {}\n", kNumericsVersion)));
  EXPECT_THAT(text, HasSubstr(fmt::format("kv_layout_version {}\n", kKvLayoutVersion)));
  EXPECT_THAT(text, HasSubstr("numerics avx2\n"));
}

TEST_F(FingerprintTest, EveryBackendNamesItsNumerics) {
  const auto portable = CreateCpuBackend({.num_threads = 1, .isa = "portable"});
  ASSERT_TRUE(portable.ok());
  EXPECT_EQ((*portable)->limits().numerics, "portable");
  EXPECT_EQ(reference::CreateBackend(size_t{1} << 20)->limits().numerics, "reference");
}

}  // namespace
}  // namespace incipit
