// Tests on every backend of the build: whole cache blocks that are read to the host and written to
// another pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/finite.h"
#include "tests/conformance/attention_layer.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

using Bytes = std::vector<std::byte>;

class BlockIoTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    if (!GetParam().unavailable.empty()) GTEST_SKIP() << GetParam().unavailable;
    backend_ = GetParam().create(2);
  }

  // Calls `test` for every block size and every type of keys and values that the backend offers.
  void ForEveryShape(const std::function<void(const AttentionShape&)>& test) const {
    const BackendLimits limits = backend_->limits();
    for (int32_t block_size = 1; block_size <= 256; block_size *= 2) {
      const auto& sizes = limits.block_sizes;
      if (!sizes.empty() && std::ranges::find(sizes, block_size) == sizes.end()) continue;
      for (const DType dtype : limits.kv_dtypes) {
        SCOPED_TRACE(testing::Message() << "blocks of " << block_size << ", " << NameOf(dtype));
        test({.head_dim = 64,
              .block_size = block_size,
              .num_blocks = 8,
              .num_layers = 2,
              .kv_dtype = dtype,
              .positions_max = 1100});
      }
    }
  }

  std::unique_ptr<KvPool> NewPool(const KvPoolShape& shape) const {
    auto pool = backend_->CreateKvPool(shape);
    EXPECT_TRUE(pool.ok()) << pool.status();
    return *std::move(pool);
  }

  Bytes Read(const KvPool& pool, const std::vector<BlockId>& blocks) const {
    Bytes bytes(blocks.size() * Backend::BlockBytes(pool));
    const absl::Status status = backend_->ReadBlocks(pool, blocks, bytes);
    EXPECT_TRUE(status.ok()) << status;
    return bytes;
  }

  // Writes `bytes` to `blocks`. The bytes must stay valid until the step has finished.
  void Write(KvPool& pool, const std::vector<BlockId>& blocks, const Bytes& bytes) const {
    std::vector<BlockWrite> writes;
    for (size_t i = 0; i < blocks.size(); ++i) {
      writes.push_back({.to = blocks[i], .data = bytes.data() + i * Backend::BlockBytes(pool)});
    }
    backend_->WriteBlocks(pool, writes);
  }

  static Bytes RandomBytes(size_t size, uint64_t seed) {
    RandomNumbers numbers(seed);
    Bytes bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(numbers.Below(256));
    return bytes;
  }

  std::unique_ptr<Backend> backend_;
};

TEST_P(BlockIoTest, TokensAttendToWrittenBlocksAsToComputedBlocks) {
  ForEveryShape([&](const AttentionShape& shape) {
    const AttentionModel model(shape);
    AttentionLayer computed(*backend_, model), written(*backend_, model);
    const int32_t length = 3 * shape.block_size;
    const std::vector<BlockId> blocks = {BlockId{6}, BlockId{1}, BlockId{4}, BlockId{7}};
    for (const int32_t layer : {0, 1}) computed.Run({{7, 0, length, blocks}}, layer);
    const Bytes bytes = Read(computed.pool(), {blocks[0], blocks[1], blocks[2]});
    EXPECT_TRUE(AllFinite(shape.kv_dtype, bytes));

    const std::vector<BlockId> targets = {BlockId{0}, BlockId{5}, BlockId{3}, BlockId{2}};
    Write(written.pool(), {targets[0], targets[1], targets[2]}, bytes);
    for (const int32_t layer : {0, 1}) {
      const Tensor original = computed.Run({{7, length, 1, blocks}}, layer);
      const Tensor loaded = written.Run({{7, length, 1, targets}}, layer);
      ExpectSameBits(loaded.Row(0), original.Row(0));
    }
    EXPECT_EQ(Read(written.pool(), {targets[0], targets[1], targets[2]}), bytes);
  });
}

TEST_P(BlockIoTest, AComputedNaNIsReadAsNaN) {
  ForEveryShape([&](const AttentionShape& shape) {
    const AttentionModel model(shape);
    AttentionLayer layer(*backend_, model, Leftovers::kNaN);
    EXPECT_TRUE(backend_->Synchronize().ok());
    EXPECT_FALSE(AllFinite(shape.kv_dtype, Read(layer.pool(), {BlockId{2}})));
  });
}

TEST_P(BlockIoTest, AWriteChangesAllBytesOfItsBlockAndNoOtherBlock) {
  ForEveryShape([&](const AttentionShape& shape) {
    const auto pool = NewPool({.num_layers = 3,
                               .num_blocks = 5,
                               .block_size = shape.block_size,
                               .num_kv_heads = 2,
                               .head_dim = 8,
                               .dtype = shape.kv_dtype});
    const std::vector<BlockId> all = {BlockId{0}, BlockId{1}, BlockId{2}, BlockId{3}, BlockId{4}};
    const size_t block_bytes = Backend::BlockBytes(*pool);
    ASSERT_EQ(block_bytes, 2u * 3 * shape.block_size * 2 * 8 * ByteSize(shape.kv_dtype));
    Bytes expected = RandomBytes(5 * block_bytes, 3);
    Write(*pool, all, expected);
    ASSERT_TRUE(backend_->Synchronize().ok());
    ASSERT_EQ(Read(*pool, all), expected);

    const Bytes other = RandomBytes(block_bytes, 4);
    Write(*pool, {BlockId{3}}, other);
    ASSERT_TRUE(backend_->Synchronize().ok());
    std::ranges::copy(other, expected.begin() + static_cast<ptrdiff_t>(3 * block_bytes));
    EXPECT_EQ(Read(*pool, all), expected);
  });
}

TEST_P(BlockIoTest, ACopyReadsTheBlockThatTheSameStepWrites) {
  ForEveryShape([&](const AttentionShape& shape) {
    const AttentionModel model(shape);
    AttentionLayer layer(*backend_, model, Leftovers::kZero);
    const Bytes bytes = RandomBytes(Backend::BlockBytes(layer.pool()), 5);
    const BlockCopy copy = {.from = BlockId{1}, .to = BlockId{6}, .num_tokens = shape.block_size};
    Write(layer.pool(), {copy.from}, bytes);
    backend_->CopyBlocks(layer.pool(), {&copy, 1});
    ASSERT_TRUE(backend_->Synchronize().ok());
    EXPECT_EQ(Read(layer.pool(), {copy.to}), bytes);
  });
}

TEST_P(BlockIoTest, ManyBlocksAreWrittenAndReadInOneCall) {
  const BackendLimits limits = backend_->limits();
  // A backend may move blocks through memory of some megabytes. The test moves 24 MiB and one
  // block.
  const auto pool = NewPool({.num_layers = 2,
                             .num_blocks = 60,
                             .block_size = 64,
                             .num_kv_heads = 8,
                             .head_dim = 128,
                             .dtype = limits.kv_dtypes.back()});
  std::vector<BlockId> blocks;
  for (int32_t i = 0; i < 49; ++i) blocks.push_back(BlockId{(i * 7 + 3) % 60});
  ASSERT_EQ(Backend::BlockBytes(*pool), size_t{512} << 10);
  const Bytes bytes = RandomBytes(blocks.size() * Backend::BlockBytes(*pool), 6);
  Write(*pool, blocks, bytes);
  ASSERT_TRUE(backend_->Synchronize().ok());
  EXPECT_TRUE(Read(*pool, blocks) == bytes);
}

TEST_P(BlockIoTest, BlocksAreReadWhileAStepForOtherBlocksIsInFlight) {
  ForEveryShape([&](const AttentionShape& shape) {
    const AttentionModel model(shape);
    AttentionLayer layer(*backend_, model, Leftovers::kZero);
    const Bytes bytes = RandomBytes(Backend::BlockBytes(layer.pool()), 8);
    Write(layer.pool(), {BlockId{5}}, bytes);
    ASSERT_TRUE(backend_->Synchronize().ok());
    layer.Fill({{7, 0, shape.block_size, {BlockId{2}}}});
    EXPECT_EQ(Read(layer.pool(), {BlockId{5}}), bytes);
    EXPECT_TRUE(backend_->Synchronize().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, BlockIoTest, testing::ValuesIn(BackendsAndReference()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace incipit
