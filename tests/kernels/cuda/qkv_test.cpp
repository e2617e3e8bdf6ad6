// Tests QkvRopeAppend by one kernel and by two kernels: both must give the same bits, and the shape
// of the heads selects the kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_options.h"
#include "kernels/emulator/runtime/graph_counts.h"
#include "tests/conformance/attention_layer.h"
#include "tests/conformance/host_view_backend.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

constexpr AttentionShape kShape = {
    .head_dim = 64, .num_blocks = 40, .kv_dtype = DType::kBF16, .positions_max = 400};

std::unique_ptr<Backend> Emulated() {
  return std::make_unique<HostViewBackend>(*CreateCudaBackend({}));
}

std::vector<BlockId> Blocks(int32_t begin, int32_t count) {
  std::vector<BlockId> blocks;
  for (int32_t i = 0; i < count; ++i) blocks.push_back(BlockId{begin + i});
  return blocks;
}

int64_t AppendLaunches() { return emulator::LaunchesOf("Append<"); }

// Returns chunks with `num_tokens` tokens in total. Several tokens are divided between two
// sequences.
std::vector<Chunk> ChunksOf(int32_t num_tokens) {
  const std::vector<BlockId> first = Blocks(3, 16), second = Blocks(25, 2);
  if (num_tokens == 1) return {{0, 17, 1, first}};
  return {{0, 0, num_tokens - 1, first}, {1, 0, 1, second}};
}

void ExpectSameBitsWithAndWithoutAppend(AttentionShape shape) {
  const auto backend = Emulated();
  const AttentionModel model(shape);
  shape.rotated_head_dim = 0;
  const AttentionModel apart_model(shape);
  AttentionLayer together(*backend, model), apart(*backend, apart_model);
  for (const int32_t num_tokens : {1, 3, 17, 64, 65, 200}) {
    SCOPED_TRACE(testing::Message() << num_tokens << " tokens, head_dim " << shape.head_dim);
    const std::vector<Chunk> chunks = ChunksOf(num_tokens);
    const int64_t before = AppendLaunches();
    const Tensor one = together.Run(chunks);
    EXPECT_EQ(AppendLaunches(), before);
    const Tensor other = apart.Run(chunks);
    EXPECT_EQ(AppendLaunches(), before + 1);
    for (int64_t row = 0; row < num_tokens; ++row) ExpectSameBits(one.Row(row), other.Row(row));
  }
}

TEST(QkvTest, WithoutNormsOfHeadsTheProductAppends) {
  ExpectSameBitsWithAndWithoutAppend(kShape);
  AttentionShape shape = kShape;
  shape.head_dim = 80;
  shape.bias = true;
  shape.block_size = 32;
  ExpectSameBitsWithAndWithoutAppend(shape);
}

TEST(QkvTest, WithNormsOrHeadsOfOtherSizesAppendComesAfterTheProduct) {
  const auto backend = Emulated();
  AttentionShape norms = kShape, odd = kShape;
  norms.qk_norm = true;
  odd.head_dim = 24;
  for (const AttentionShape& shape : {norms, odd}) {
    const AttentionModel model(shape);
    AttentionLayer layer(*backend, model);
    const int64_t before = AppendLaunches();
    layer.Run(ChunksOf(3));
    EXPECT_EQ(AppendLaunches(), before + 1);
  }
}

// Plants mistakes: heads of another size, or heads with norms, although the weight was not packed
// for them.
TEST(QkvTest, AWeightThatWasPackedForOtherHeadsAborts) {
  // This style is needed because packing the weights has started threads.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto backend = Emulated();
  AttentionShape norms = kShape, heads = kShape;
  norms.qk_norm = true;
  norms.rotated_head_dim = 64;
  heads.rotated_head_dim = 128;
  const AttentionModel with_norms(norms), with_heads(heads);
  EXPECT_DEATH(AttentionLayer(*backend, with_norms), "query_norm == nullptr");
  EXPECT_DEATH(AttentionLayer(*backend, with_heads), "head_dim");
}

}  // namespace
}  // namespace incipit
