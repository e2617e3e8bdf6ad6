// Tests on every backend of the build: appending keys and values to blocks, and attention over
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_options.h"
#include "tests/conformance/attention_layer.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

class AttentionTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  // Returns `shape` with a type of keys and values that the backend offers. Returns nullopt if the
  // backend does not offer the shape.
  std::optional<AttentionShape> Offered(AttentionShape shape) const {
    const BackendLimits limits = backend_->limits();
    const auto& dtypes = limits.kv_dtypes;
    const bool has_dtype = std::ranges::find(dtypes, shape.kv_dtype) != dtypes.end();
    if (!Offers(*backend_, has_dtype, "KV of " + std::string(NameOf(shape.kv_dtype)))) {
      shape.kv_dtype = dtypes.front();
    }
    const auto& sizes = limits.block_sizes;
    const bool has_size =
        sizes.empty() || std::ranges::find(sizes, shape.block_size) != sizes.end();
    if (!Offers(*backend_, shape.head_dim % limits.head_dim_multiple == 0,
                "head_dim " + std::to_string(shape.head_dim)) ||
        !Offers(*backend_, has_size, "blocks of " + std::to_string(shape.block_size))) {
      return std::nullopt;
    }
    return shape;
  }

  void SetUp() override {
    if (!GetParam().unavailable.empty()) GTEST_SKIP() << GetParam().unavailable;
    backend_ = GetParam().create(2);
    reference_ = CreateReference();
  }

  float ToleranceFor(const AttentionShape& shape) const {
    const Tolerance tolerance = ToleranceOf(GetParam(), DType::kBF16);
    const float storage = shape.kv_dtype == DType::kBF16 ? kBF16StorageTolerance : 0;
    return std::max({tolerance.products, tolerance.attention, storage});
  }

  // Compares sequences of different lengths with the reference: a prefill, a chunk in the middle of
  // a prompt, and a decode step.
  void ExpectAgreement(const AttentionShape& wanted) {
    const std::optional<AttentionShape> offered = Offered(wanted);
    if (!offered.has_value()) return;
    const AttentionShape& shape = *offered;
    const AttentionModel model(shape);
    AttentionLayer layer(*backend_, model), expected(*reference_, model, Leftovers::kZero);
    const std::vector<BlockId> first = ScatteredBlocks(shape, 0, 40),
                               second = ScatteredBlocks(shape, 1, 40),
                               third = ScatteredBlocks(shape, 2, 40);
    const std::vector<std::vector<Chunk>> steps = {
        {{0, 0, 37, first}, {1, 0, 1, second}},
        {{0, 37, 1, first}, {1, 1, 20, second}, {2, 0, 3, third}},
        {{2, 3, 1, third}, {1, 21, 1, second}, {0, 38, 2, first}},
    };
    for (const std::vector<Chunk>& step : steps) {
      ExpectNear(layer.Run(step), expected.Run(step), ToleranceFor(shape));
    }
  }

  std::unique_ptr<Backend> backend_, reference_;
};

TEST_P(AttentionTest, AgreesWithTheReferenceForEveryHeadSize) {
  for (const int32_t head_dim : {2, 6, 8, 20, 48, 64, 80, 96, 128, 256}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(testing::Message() << "head_dim " << head_dim << ", " << NameOf(dtype));
      ExpectAgreement({.head_dim = head_dim, .kv_dtype = dtype});
    }
  }
}

TEST_P(AttentionTest, AgreesWithTheReferenceForEveryGroupSize) {
  for (const auto& [num_heads, num_kv_heads] :
       {std::pair{1, 1}, {3, 3}, {4, 2}, {6, 2}, {7, 1}, {14, 2}, {16, 1}, {64, 1}}) {
    SCOPED_TRACE(testing::Message() << num_heads << " heads on " << num_kv_heads);
    ExpectAgreement({.num_heads = num_heads, .num_kv_heads = num_kv_heads});
  }
}

TEST_P(AttentionTest, AgreesWithTheReferenceForEveryBlockSize) {
  for (int32_t block_size = 1; block_size <= 256; block_size *= 2) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(testing::Message() << "blocks of " << block_size << ", " << NameOf(dtype));
      ExpectAgreement({.block_size = block_size,
                       .num_blocks = std::max(6, 160 / block_size),
                       .kv_dtype = dtype});
    }
  }
}

TEST_P(AttentionTest, AgreesWithTheReferenceForEveryWindow) {
  for (const int32_t window : {1, 2, 15, 16, 17, 31, 39, 100}) {
    for (const int32_t block_size : {4, 32}) {
      SCOPED_TRACE(testing::Message() << "window " << window << ", blocks of " << block_size);
      ExpectAgreement(
          {.block_size = block_size, .num_blocks = 160 / block_size + 3, .window = window});
    }
  }
}

TEST_P(AttentionTest, AgreesWithTheReferenceWithBiasAndHeadNorms) {
  ExpectAgreement({.bias = true});
  ExpectAgreement({.qk_norm = true});
  ExpectAgreement(
      {.num_heads = 6, .num_kv_heads = 3, .head_dim = 24, .qk_norm = true, .bias = true});
}

// Returns a context length that is longer than two splits and not a multiple of a split. A split is
// a part of a context. Different threads or thread blocks compute different splits.
int32_t LongLength(const BackendCase& backend) { return backend.has_threads ? 2200 : 750; }

AttentionShape LongShape(const BackendCase& backend, int32_t window, DType dtype) {
  return {.num_heads = 5,
          .num_kv_heads = 5,
          .head_dim = backend.has_threads ? 8 : 64,
          .block_size = 32,
          .num_blocks = 150,
          .window = window,
          .kv_dtype = dtype,
          .positions_max = LongLength(backend) + 100};
}

TEST_P(AttentionTest, AgreesWithTheReferenceOverLongContexts) {
  const int32_t length = LongLength(GetParam());
  for (const auto& [window, dtype] :
       {std::pair{0, DType::kF32}, {0, DType::kBF16}, {1500, DType::kF32}, {300, DType::kF32}}) {
    SCOPED_TRACE(testing::Message() << "window " << window << ", " << NameOf(dtype));
    const AttentionShape shape = *Offered(LongShape(GetParam(), window, dtype));
    const AttentionModel model(shape);
    AttentionLayer layer(*backend_, model), expected(*reference_, model, Leftovers::kZero);
    const std::vector<BlockId> first = ScatteredBlocks(shape, 0, length + 10),
                               second = ScatteredBlocks(shape, 1, length + 10);
    const std::vector<std::vector<Chunk>> steps = {
        {{0, length - 20, 20, first}, {1, 0, 70, second}},
        {{1, 70, 1, second}, {0, length, 1, first}},
        {{0, length + 1, 7, first}},
    };
    for (AttentionLayer* each : {&layer, &expected}) {
      each->Fill({{0, 0, length - 20, first}});
    }
    for (const std::vector<Chunk>& step : steps) {
      ExpectNear(layer.Run(step), expected.Run(step), ToleranceFor(shape));
    }
  }
}

TEST_P(AttentionTest, AnEmptyStepDoesNothing) {
  const AttentionShape shape = *Offered({});
  const AttentionModel model(shape);
  AttentionLayer layer(*backend_, model);
  EXPECT_EQ(layer.Run({}).rows(), 0);
  EXPECT_EQ(layer.Run({{0, 0, 0, {}}}).rows(), 0);
}

TEST_P(AttentionTest, BlocksThatTheWindowHidesAreNotTouched) {
  // The blocks that the window hides have invalid ids, so that a read of such a block would abort
  // or fault.
  const AttentionShape shape = *Offered({.num_blocks = 8, .window = 20});
  const AttentionModel model(shape);
  AttentionLayer layer(*backend_, model), expected(*backend_, model);
  std::vector<BlockId> blocks = ScatteredBlocks(shape, 0, 101);
  layer.Run({{0, 0, 100, blocks}});
  expected.Run({{0, 0, 100, blocks}});
  const Tensor whole = expected.Run({{0, 100, 1, blocks}});
  // The first five blocks contain the positions [0, 80). The window hides the positions [0, 81).
  for (int32_t i = 0; i < 5; ++i) blocks[i] = BlockId{-1};
  ExpectSameBits(layer.Run({{0, 100, 1, blocks}}).Row(0), whole.Row(0));
}

TEST_P(AttentionTest, SmallBlocksThatTheWindowHidesAreNotTouched) {
  const auto offered = Offered({.block_size = 4, .num_blocks = 30, .window = 21});
  if (!offered.has_value()) GTEST_SKIP() << "this backend does not offer blocks of 4 tokens";
  const AttentionShape& shape = *offered;
  const AttentionModel model(shape);
  AttentionLayer layer(*backend_, model), expected(*backend_, model);
  std::vector<BlockId> blocks = ScatteredBlocks(shape, 0, 101);
  layer.Run({{0, 0, 100, blocks}});
  expected.Run({{0, 0, 100, blocks}});
  const Tensor whole = expected.Run({{0, 100, 1, blocks}});
  // The first 20 blocks contain the positions [0, 80). Their ids are far outside the pool, so that
  // reading one would fault instead of reading another block.
  for (int32_t i = 0; i < 20; ++i) blocks[i] = BlockId{-(1 << 30)};
  ExpectSameBits(layer.Run({{0, 100, 1, blocks}}).Row(0), whole.Row(0));
}

class AttentionBitsTest : public AttentionTest {
 protected:
  void SetUp() override {
    AttentionTest::SetUp();
    if (!IsSkipped() && !GetParam().keeps_rows_apart) {
      GTEST_SKIP() << "on this backend, the bits of a row depend on other rows";
    }
  }

  static constexpr int32_t kLength = 150;

  // Returns the attention of one sequence, computed alone in one step.
  static Tensor Alone(Backend& backend, const AttentionModel& model) {
    AttentionLayer layer(backend, model);
    return layer.Run({{7, 0, kLength, ScatteredBlocks(model.shape_, 0, kLength)}});
  }

  // Returns the shapes of AllShapesForBits() that the backend offers.
  std::vector<AttentionShape> ShapesForBits() const {
    std::vector<AttentionShape> shapes;
    for (const AttentionShape& shape : AllShapesForBits()) {
      if (const auto offered = Offered(shape)) shapes.push_back(*offered);
    }
    return shapes;
  }

 private:
  static std::vector<AttentionShape> AllShapesForBits() {
    return {{.num_heads = 4, .num_kv_heads = 4, .head_dim = 16, .num_blocks = 32},
            {.num_heads = 14,
             .num_kv_heads = 2,
             .head_dim = 64,
             .num_blocks = 32,
             .kv_dtype = DType::kBF16},
            {.num_heads = 6,
             .num_kv_heads = 2,
             .head_dim = 48,
             .num_blocks = 32,
             .window = 37,
             .kv_dtype = DType::kBF16},
            {.num_heads = 6, .num_kv_heads = 2, .head_dim = 20, .num_blocks = 32, .window = 37},
            {.num_heads = 6, .num_kv_heads = 2, .head_dim = 24, .num_blocks = 32, .window = 37}};
  }
};

TEST_P(AttentionBitsTest, ChunksOfAnySizeGiveTheSameBits) {
  for (const AttentionShape& shape : ShapesForBits()) {
    const AttentionModel model(shape);
    const Tensor whole = Alone(*backend_, model);
    const std::vector<BlockId> blocks = ScatteredBlocks(shape, 0, kLength);
    for (const int32_t size : {1, 7, 16, 64}) {
      SCOPED_TRACE(testing::Message() << "chunks of " << size);
      AttentionLayer layer(*backend_, model);
      for (int32_t begin = 0; begin < kLength; begin += size) {
        const int32_t count = std::min(size, kLength - begin);
        const Tensor part = layer.Run({{7, begin, count, blocks}});
        for (int32_t i = 0; i < count; ++i) ExpectSameBits(part.Row(i), whole.Row(begin + i));
      }
    }
  }
}

// Threads divide the work on a long context by token and head, or by split (part of the context).
// Each division must give the same bits.
TEST_P(AttentionBitsTest, LongContextsGiveTheSameBitsWithAnyThreadsAndChunks) {
  const int32_t length = LongLength(GetParam()), first = length * 51 / 110, second = length - 90;
  for (const int32_t window : {0, 1500}) {
    const AttentionShape shape = *Offered(LongShape(GetParam(), window, DType::kBF16));
    const AttentionModel model(shape);
    const std::vector<BlockId> blocks = ScatteredBlocks(shape, 0, length),
                               other = ScatteredBlocks(shape, 1, length);
    AttentionLayer alone(*backend_, model);
    const Tensor whole = alone.Run({{7, 0, length, blocks}});
    for (const int32_t num_threads : {1, 2, 4, 13}) {
      if (num_threads > 1 && !GetParam().has_threads) break;
      SCOPED_TRACE(testing::Message() << "window " << window << ", " << num_threads << " threads");
      const auto backend = GetParam().create(num_threads);
      AttentionLayer layer(*backend, model);
      const auto expect_same = [&](const Tensor& rows, int32_t from, int32_t begin, int32_t count) {
        for (int32_t i = 0; i < count; ++i) {
          ExpectSameBits(rows.Row(from + i), whole.Row(begin + i));
        }
      };
      expect_same(layer.Run({{7, 0, first, blocks}}), 0, 0, first);
      expect_same(layer.Run({{7, first, second - first, blocks}, {3, 0, 90, other}}), 0, first,
                  second - first);
      expect_same(layer.Run({{3, 90, 1, other}, {7, second, 50, blocks}}), 1, second, 50);
      for (int32_t i = second + 50; i < length; ++i) {
        expect_same(layer.Run({{7, i, 1, blocks}}), 0, i, 1);
      }
    }
  }
}

TEST_P(AttentionBitsTest, OtherSequencesInTheStepChangeNothing) {
  for (const AttentionShape& shape : ShapesForBits()) {
    const AttentionModel model(shape);
    const Tensor whole = Alone(*backend_, model);
    AttentionLayer layer(*backend_, model);
    const std::vector<BlockId> first = ScatteredBlocks(shape, 0, kLength),
                               second = ScatteredBlocks(shape, 1, kLength),
                               third = ScatteredBlocks(shape, 2, kLength);
    const Tensor start = layer.Run({{3, 0, 33, second}, {7, 0, 140, first}, {5, 0, 9, third}});
    for (int32_t i = 0; i < 140; ++i) ExpectSameBits(start.Row(33 + i), whole.Row(i));
    for (int32_t i = 140; i < kLength; ++i) {
      const int32_t step = i - 140;
      const Tensor next =
          layer.Run({{5, 9 + step, 1, third}, {3, 33 + 3 * step, 3, second}, {7, i, 1, first}});
      ExpectSameBits(next.Row(4), whole.Row(i));
    }
  }
}

TEST_P(AttentionBitsTest, TheBlockSizeChangesNothing) {
  for (AttentionShape shape : ShapesForBits()) {
    const AttentionModel model(shape);
    const Tensor whole = Alone(*backend_, model);
    for (const int32_t block_size : {1, 2, 8, 32, 64, 256}) {
      SCOPED_TRACE(testing::Message() << "blocks of " << block_size);
      shape.block_size = block_size;
      shape.num_blocks = std::max(2, 256 / block_size);
      if (!Offered(shape).has_value()) continue;
      const AttentionModel other(shape);
      const Tensor result = Alone(*backend_, other);
      for (int32_t i = 0; i < kLength; ++i) ExpectSameBits(result.Row(i), whole.Row(i));
    }
  }
}

TEST_P(AttentionBitsTest, TheNumberOfThreadsChangesNothing) {
  if (!GetParam().has_threads) GTEST_SKIP() << "this backend uses no threads of the host";
  for (const AttentionShape& shape : ShapesForBits()) {
    const AttentionModel model(shape);
    const Tensor whole = Alone(*backend_, model);
    for (const int32_t threads : {1, 3}) {
      const auto other = GetParam().create(threads);
      const Tensor result = Alone(*other, model);
      for (int32_t i = 0; i < kLength; ++i) ExpectSameBits(result.Row(i), whole.Row(i));
    }
  }
}

TEST_P(AttentionBitsTest, TwoSequencesShareTheBlocksThatOneOfThemFillsInTheSameStep) {
  const AttentionShape shape = ShapesForBits().front();
  const AttentionModel model(shape);
  const Tensor whole = Alone(*backend_, model);
  AttentionLayer layer(*backend_, model);
  const std::vector<BlockId> blocks = ScatteredBlocks(shape, 0, kLength);
  // The second sequence reads blocks that the first sequence writes in the same step, as after a
  // hit on a block in flight.
  const Tensor both = layer.Run({{7, 0, kLength, blocks}, {7, kLength - 1, 1, blocks}});
  ExpectSameBits(both.Row(kLength), whole.Row(kLength - 1));
}

TEST_P(AttentionBitsTest, CopiedSlotsAreUsedAsTheOriginalsAndNothingElseIsCopied) {
  for (const int32_t block_size : {4, 16, 64}) {
    SCOPED_TRACE(testing::Message() << "blocks of " << block_size);
    const auto offered = Offered({.block_size = block_size, .num_blocks = 13, .num_layers = 2});
    if (!offered.has_value()) continue;
    const AttentionShape& shape = *offered;
    const AttentionModel model(shape);
    AttentionLayer layer(*backend_, model);
    // Slightly more than half of the second block is used.
    const int32_t length = block_size + block_size / 2 + 1;
    std::vector<BlockId> blocks = {BlockId{3}, BlockId{8}};
    layer.Run({{7, 0, 2 * block_size, blocks}}, 0);
    layer.Run({{7, 0, 2 * block_size, blocks}}, 1);

    // Block 11 first contains another sequence. The copy may change only the first slots of block
    // 11.
    layer.Run({{4, 0, block_size, {BlockId{11}}}}, 0);
    const std::vector<BlockCopy> copies = {
        {.from = BlockId{8}, .to = BlockId{11}, .num_tokens = length - block_size}};
    backend_->CopyBlocks(layer.pool(), copies);
    for (const int32_t at_layer : {0, 1}) {
      const Tensor original = layer.Run({{7, length, 1, blocks}}, at_layer);
      const Tensor copied = layer.Run({{7, length, 1, {BlockId{3}, BlockId{11}}}}, at_layer);
      ExpectSameBits(copied.Row(0), original.Row(0));
    }
    // The slots of block 11 behind the copied slots still contain the other sequence.
    AttentionLayer fresh(*backend_, model);
    fresh.Run({{4, 0, block_size, {BlockId{11}}}}, 0);
    fresh.Run({{7, 0, 2 * block_size, blocks}}, 0);
    backend_->CopyBlocks(fresh.pool(), copies);
    const int32_t last = 2 * block_size;
    const Tensor mixed = fresh.Run({{7, last, 1, {BlockId{3}, BlockId{11}, BlockId{12}}}}, 0);
    const Tensor original = fresh.Run({{7, last, 1, {BlockId{3}, BlockId{8}, BlockId{12}}}}, 0);
    EXPECT_FALSE(std::ranges::equal(mixed.Row(0), original.Row(0)));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionTest, testing::ValuesIn(Backends()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Backends, AttentionBitsTest, testing::ValuesIn(Backends()),
                         [](const auto& info) { return info.param.name; });

TEST(KvPoolTest, ShapesOutOfRangeAreRefusedByName) {
  auto cpu = CreateCpuBackend({.num_threads = 1});
  ASSERT_TRUE(cpu.ok());
  const auto reference = CreateReference();
  for (Backend* const backend : {cpu->get(), reference.get()}) {
    KvPoolShape shape = {
        .num_layers = 1, .num_blocks = 1, .block_size = 24, .num_kv_heads = 1, .head_dim = 8};
    EXPECT_EQ(backend->CreateKvPool(shape).status().code(), absl::StatusCode::kInvalidArgument);
    shape.block_size = 512;
    EXPECT_EQ(backend->CreateKvPool(shape).status().code(), absl::StatusCode::kInvalidArgument);
    shape.block_size = 16;
    shape.dtype = DType::kF16;
    EXPECT_EQ(backend->CreateKvPool(shape).status().code(), absl::StatusCode::kInvalidArgument);
    shape.dtype = DType::kF32;
    shape.num_layers = 0;
    EXPECT_EQ(backend->CreateKvPool(shape).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace incipit
