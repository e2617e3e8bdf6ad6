#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/device/attention/decode_attention.h"
#include "kernels/cuda/device/attention/prefill_attention.h"
#include "kernels/cuda/device/attention/simple_attention.h"
#include "kernels/cuda/device/product/append_rows.h"
#include "kernels/cuda/device/product/skinny_product.h"
#include "kernels/cuda/host/packed_weight.h"
#include "kernels/numeric.h"
#include "tests/kernels/cuda/attention_case.h"

namespace incipit::cuda {
namespace {

template <int kHeadDim, int kPageSize>
using Decode = DecodeAttention<AttentionShape<kHeadDim, kPageSize>>;

template <int kHeadDim, int kPageSize>
using Prefill = PrefillAttention<AttentionShape<kHeadDim, kPageSize>>;

std::vector<CaseSequence> Lasts(std::vector<int> lengths) {
  std::vector<CaseSequence> sequences;
  for (const int length : lengths) {
    sequences.push_back({static_cast<int>(sequences.size()), length - 1, length});
  }
  return sequences;
}

template <class Kernel>
void ExpectCorrect(AttentionCase& step, int num_blocks = 4, uint64_t seed = 1) {
  const emulator::Report report = step.Run<Kernel>(num_blocks, seed);
  ASSERT_EQ(report.fault, "");
  EXPECT_LE(step.WorstError(), 1);
  EXPECT_TRUE(step.arrivals_are_clear());
}

TEST(SimpleAttention, AgreesWithTheDefinitionForAnyHeadSize) {
  for (const int head_dim : {8, 24, 64, 80, 128, 256}) {
    AttentionCase step({.num_heads = 6, .num_kv_heads = 2, .head_dim = head_dim},
                       {{0, 0, 5}, {1, 63, 64}, {2, 99, 101}});
    SCOPED_TRACE(head_dim);
    ExpectCorrect<SimpleAttention>(step);
  }
}

TEST(SimpleAttention, LooksBackNoFartherThanItsWindow) {
  AttentionCase step({.num_heads = 2, .num_kv_heads = 1, .head_dim = 24, .window = 33},
                     {{0, 0, 3}, {1, 99, 101}});
  ExpectCorrect<SimpleAttention>(step);
}

TEST(DecodeAttention, AgreesWithTheDefinitionAroundTheEdgesOfPagesAndSteps) {
  const std::vector<int> lengths = {1, 15, 16, 17, 63, 64, 65, 127, 128, 129};
  AttentionCase small({.num_heads = 8, .num_kv_heads = 2, .head_dim = 64}, Lasts(lengths));
  ExpectCorrect<Decode<64, 16>>(small);
  AttentionCase large({.num_heads = 4, .num_kv_heads = 1, .head_dim = 128}, Lasts(lengths));
  ExpectCorrect<Decode<128, 16>>(large);
}

TEST(DecodeAttention, AddsUpSplits) {
  AttentionCase step({.num_heads = 4, .num_kv_heads = 1, .head_dim = 64},
                     Lasts({255, 256, 257, 512, 513, 1025}));
  ExpectCorrect<Decode<64, 16>>(step);
}

TEST(PrefillAttention, AgreesWithTheDefinition) {
  AttentionCase small({.num_heads = 4, .num_kv_heads = 2, .head_dim = 64},
                      {{0, 0, 17}, {1, 0, 65}, {2, 30, 100}});
  ExpectCorrect<Prefill<64, 16>>(small);
  AttentionCase large({.num_heads = 4, .num_kv_heads = 1, .head_dim = 128}, {{0, 0, 100}});
  ExpectCorrect<Prefill<128, 16>>(large);
}

TEST(PrefillAttention, AddsUpSplits) {
  AttentionCase step({.num_heads = 4, .num_kv_heads = 1, .head_dim = 64}, {{0, 500, 560}});
  ExpectCorrect<Prefill<64, 16>>(step);
}

TEST(DecodeAttention, SharesKeysAmongAnyNumberOfHeadsAndTokens) {
  for (const int group : {1, 4, 7, 8, 14, 20}) {
    for (const int count : {1, 3, 16}) {
      SCOPED_TRACE(testing::Message() << group << " heads, " << count << " tokens");
      AttentionCase step({.num_heads = 2 * group, .num_kv_heads = 2},
                         {{0, 0, count}, {1, 70 - count, 70}});
      ASSERT_EQ(step.list().num_prefill_tiles, 0);
      ExpectCorrect<Decode<64, 16>>(step);
    }
  }
}

template <class Kernel>
void ExpectCorrectWithWindows(int page_size, int max_decode_tokens) {
  for (const int window : {1, 16, 17, 100, 300}) {
    SCOPED_TRACE(window);
    AttentionCase step({.num_heads = 4, .page_size = page_size, .window = window},
                       {{0, 0, 5}, {1, 97, 103}, {2, 600, 603}},
                       {.max_decode_tokens = max_decode_tokens});
    ExpectCorrect<Kernel>(step);
  }
}

TEST(DecodeAttention, LooksBackNoFartherThanItsWindow) {
  ExpectCorrectWithWindows<Decode<64, 16>>(16, 16);
  ExpectCorrectWithWindows<Decode<64, 64>>(64, 16);
}

TEST(PrefillAttention, LooksBackNoFartherThanItsWindow) {
  ExpectCorrectWithWindows<Prefill<64, 16>>(16, 0);
  ExpectCorrectWithWindows<Prefill<64, 32>>(32, 0);
}

template <int kHeadDim, int kPageSize>
void ExpectCorrectPages() {
  const CaseShape shape = {.num_heads = 4, .head_dim = kHeadDim, .page_size = kPageSize};
  AttentionCase decode(shape, Lasts({1, 40, 64, 65, 100, 320}));
  ExpectCorrect<Decode<kHeadDim, kPageSize>>(decode);
  AttentionCase prefill(shape, {{0, 0, 20}, {1, 50, 100}});
  ExpectCorrect<Prefill<kHeadDim, kPageSize>>(prefill);
}

TEST(PagedAttention, ReadsPagesOfEverySize) {
  ExpectCorrectPages<64, 32>();
  ExpectCorrectPages<64, 64>();
  ExpectCorrectPages<128, 32>();
  ExpectCorrectPages<128, 64>();
}

TEST(PagedAttention, HasTheSameBitsInWhateverOrderThreadsRun) {
  for (const int max_decode_tokens : {0, 16}) {
    std::vector<uint16_t> first;
    for (const uint64_t seed : {1, 2, 3, 4}) {
      AttentionCase step({.num_heads = 8, .num_kv_heads = 2}, {{0, 0, 9}, {1, 300, 310}},
                         {.max_decode_tokens = max_decode_tokens});
      const int num_blocks = 1 + static_cast<int>(seed) * 2;
      if (max_decode_tokens == 0) {
        ExpectCorrect<Prefill<64, 16>>(step, num_blocks, seed);
      } else {
        ExpectCorrect<Decode<64, 16>>(step, num_blocks, seed);
      }
      if (first.empty()) first = step.Row(step.num_tokens() - 1);
      EXPECT_EQ(step.Row(step.num_tokens() - 1), first);
    }
  }
}

// Expects that the decode kernel and the prefill kernel compute the same bits for the last `count`
// tokens of sequences of these lengths.
template <int kHeadDim, int kPageSize>
void ExpectSameBits(const CaseShape& shape, const std::vector<int>& lengths, int count) {
  std::vector<CaseSequence> sequences;
  for (const int length : lengths) {
    sequences.push_back({static_cast<int>(sequences.size()), std::max(0, length - count), length});
  }
  AttentionCase decode(shape, sequences), prefill(shape, sequences, {.max_decode_tokens = 0});
  ASSERT_EQ(decode.list().num_prefill_tiles, 0);
  ASSERT_EQ(prefill.list().num_decode_items, 0);
  ExpectCorrect<Decode<kHeadDim, kPageSize>>(decode, 3, 5);
  ExpectCorrect<Prefill<kHeadDim, kPageSize>>(prefill, 3, 6);
  for (int token = 0; token < decode.num_tokens(); ++token) {
    EXPECT_EQ(decode.Row(token), prefill.Row(token)) << decode.positions[token];
  }
}

TEST(PagedAttention, HasTheSameBitsFromEitherKernel) {
  ExpectSameBits<64, 16>({.num_heads = 4, .num_kv_heads = 1}, {1, 2, 64, 65, 100, 257, 600}, 1);
  ExpectSameBits<64, 16>({.num_heads = 14, .num_kv_heads = 2}, {7, 66, 258}, 3);
  ExpectSameBits<128, 16>({.num_heads = 8, .num_kv_heads = 1, .head_dim = 128}, {70, 513}, 2);
  ExpectSameBits<64, 16>({.num_heads = 2, .num_kv_heads = 1, .window = 100}, {90, 300, 1030}, 5);
}

TEST(PagedAttention, HasTheSameBitsWhereTheLengthOfSplitsChanges) {
  static_assert(SplitLength(2047) != SplitLength(2048));
  ExpectSameBits<64, 16>({.num_heads = 2, .num_kv_heads = 1}, {2050}, 5);
}

TEST(PagedAttention, HasTheSameBitsHoweverAPromptIsCut) {
  const CaseShape shape = {.num_heads = 7, .num_kv_heads = 1};
  AttentionCase whole(shape, {{0, 0, 300}});
  ExpectCorrect<Prefill<64, 16>>(whole);
  for (const std::vector<int>& cuts : {std::vector<int>{0, 100, 300}, {0, 17, 33, 290, 300}}) {
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      AttentionCase chunk(shape, {{1, 5, 40}, {0, cuts[i], cuts[i + 1]}, {2, 80, 81}});
      ASSERT_EQ((chunk.Run<Prefill<64, 16>>().fault), "");
      ASSERT_EQ((chunk.Run<Decode<64, 16>>(5).fault), "");
      for (int position = cuts[i]; position < cuts[i + 1]; ++position) {
        ASSERT_EQ(chunk.Row(35 + position - cuts[i]), whole.Row(position)) << position;
      }
    }
  }
}

TEST(PagedAttention, SeesWhatAKernelInFrontOfItAppends) {
  for (const uint64_t seed : {1, 2, 3}) {
    AttentionCase step({.num_heads = 4}, {{0, 0, 3}, {1, 60, 65}, {2, 99, 100}});
    // The query, key and value of each token, as a product would store them. The rotation changes
    // nothing.
    const std::vector<float> product = step.Unappended();
    std::vector<float> rope(100 * 64, 0);
    for (size_t i = 0; i < rope.size(); ++i) rope[i] = i % 64 < 32 ? 1 : 0;
    const AppendArgs append = {.step = &step.header(),
                               .product = product.data(),
                               .rope = rope.data(),
                               .query = step.query.data(),
                               .pool = step.pool.data(),
                               .layout = step.layout(),
                               .num_heads = 4};
    const PagedAttentionArgs attention = step.args();
    const emulator::KernelLaunch launches[] = {
        {emulator::CodeOf<Append<float>>(), &append, sizeof(append), 3},
        {.code = emulator::CodeOf<Decode<64, 16>>(),
         .args = &attention,
         .args_bytes = sizeof(attention),
         .num_blocks = 3,
         .dependent = true}};
    const emulator::Report report = emulator::RunKernels({.seed = seed}, launches);
    ASSERT_EQ(report.fault, "");
    EXPECT_LE(step.WorstError(), 1);
  }
}

// A product with an identity matrix appends queries, keys and values. Attention starts before the
// product has ended.
TEST(PagedAttention, SeesWhatAProductInFrontOfItAppends) {
  for (const uint64_t seed : {1, 2, 3}) {
    AttentionCase step({.num_heads = 4}, {{0, 0, 3}, {1, 60, 65}, {2, 99, 100}});
    const std::vector<float> rows = step.Unappended();
    constexpr int kWidth = 6 * 64;
    std::vector<uint16_t> x, ones(size_t{kWidth} * kWidth);
    for (const float value : rows) x.push_back(NarrowBF16(value));
    for (size_t i = 0; i < kWidth; ++i) ones[i * kWidth + i] = NarrowBF16(1);
    const ConstTensorView view = {ones.data(), DType::kBF16, kWidth, kWidth};
    const UnpackedWeight weight = {{&view, 1}, RowOrder::kRotary, 64};
    std::vector<Vec4> packed(static_cast<size_t>(weight.packed_bytes() / 16)),
        aligned(x.size() / 8);
    PackUnits(weight, 0, {reinterpret_cast<uint16_t*>(packed.data()), packed.size() * 8});
    std::memcpy(aligned.data(), x.data(), x.size() * 2);
    std::vector<float> rope(100 * 64, 0);
    for (size_t i = 0; i < rope.size(); ++i) rope[i] = i % 64 < 32 ? 1 : 0;
    using Kernel = SkinnyProduct<SkinnyShape<16, AppendRows>>;
    const Kernel::Args product = {
        .input = {.num_rows = &step.header().num_tokens,
                  .x = reinterpret_cast<const dev::bf16*>(aligned.data()),
                  .weight = reinterpret_cast<const dev::bf16*>(packed.data()),
                  .columns = kWidth,
                  .num_units = kWidth / kUnitRows},
        .epilogue = {.step = &step.header(),
                     .rope = rope.data(),
                     .query = step.query.data(),
                     .pool = step.pool.data(),
                     .layout = step.layout(),
                     .num_heads = 4}};
    const PagedAttentionArgs attention = step.args();
    const emulator::KernelLaunch launches[] = {
        {emulator::CodeOf<Kernel>(), &product, sizeof(product), 3},
        {.code = emulator::CodeOf<Decode<64, 16>>(),
         .args = &attention,
         .args_bytes = sizeof(attention),
         .num_blocks = 3,
         .dependent = true}};
    const emulator::Report report = emulator::RunKernels({.seed = seed}, launches);
    ASSERT_EQ(report.fault, "");
    EXPECT_LE(step.WorstError(), 1);
  }
}

TEST(PagedAttention, KeepsOneSequencesNaNFromItsNeighbours) {
  for (const int max_decode_tokens : {0, 16}) {
    const auto run = [&](bool spoil) {
      AttentionCase step({.num_heads = 4, .num_kv_heads = 2},
                         {{0, 99, 101}, {1, 70, 71}, {2, 5, 9}},
                         {.max_decode_tokens = max_decode_tokens});
      if (spoil) step.SpoilSequence(1);
      EXPECT_EQ((step.Run<Prefill<64, 16>>(3).fault), "");
      EXPECT_EQ((step.Run<Decode<64, 16>>(3).fault), "");
      std::vector<std::vector<uint16_t>> rows;
      for (int token = 0; token < step.num_tokens(); ++token) rows.push_back(step.Row(token));
      return rows;
    };
    const auto sound = run(false), spoilt = run(true);
    for (const int token : {0, 1, 3, 4, 5, 6}) EXPECT_EQ(sound[token], spoilt[token]);
    EXPECT_TRUE(std::isnan(dev::ToFloat({spoilt[2][0]})));
  }
}

}  // namespace
}  // namespace incipit::cuda
