#include "kvcache/kv_layout.h"

#include <gtest/gtest.h>

namespace incipit {
namespace {

constexpr KvLayout kSmall = {
    .num_layers = 2, .num_kv_heads = 3, .head_dim = 8, .bytes_per_element = 4, .block_size = 16};

TEST(KvLayoutTest, ABlockHoldsKeysAndValuesOfEveryLayer) {
  EXPECT_EQ(BytesPerBlock(kSmall), 2 * 2 * 16 * 3 * 8 * 4);
}

// A model with 80 layers and 8 KV heads of 128 dimensions stores 320 KiB per token in bf16. The
// layout of this test has 100 times as many layers.
TEST(KvLayoutTest, LargeModelsDoNotOverflow) {
  const KvLayout large = {.num_layers = 8000,
                          .num_kv_heads = 8,
                          .head_dim = 128,
                          .bytes_per_element = 2,
                          .block_size = 256};
  EXPECT_EQ(BytesPerBlock(large), int64_t{320} * 1024 * 100 * 256);
}

TEST(KvLayoutTest, WhatAProcessKeepsAboutABlockCountsToo) {
  const auto block = static_cast<uint64_t>(BytesPerBlock(kSmall));
  EXPECT_EQ(BlocksThatFit(kSmall, 0), 0);
  EXPECT_EQ(BlocksThatFit(kSmall, block), 0);
  EXPECT_EQ(BlocksThatFit(kSmall, block + 200), 1);
  const int32_t many = BlocksThatFit(kSmall, 1'000'000 * block);
  EXPECT_LT(many, 1'000'000);
  EXPECT_GT(many, 900'000);
}

TEST(KvLayoutTest, NeverMoreBlocksThanABlockIdCanName) {
  EXPECT_EQ(BlocksThatFit(kSmall, ~uint64_t{0}), kBlocksMax);
}

}  // namespace
}  // namespace incipit
