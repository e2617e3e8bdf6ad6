// Keys and values into their blocks, and attention over them, on every backend of the build.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/backend.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

constexpr int32_t kHiddenSize = 16;

struct AttentionShape {
  int32_t num_heads = 4, num_kv_heads = 2, head_dim = 16;
  int32_t block_size = 16, num_blocks = 12, window = 0, num_layers = 1;
  DType kv_dtype = DType::kF32;
  bool qk_norm = false, bias = false;
  int32_t positions_max = 600;
};

// The weights of an attention layer and the inputs of tokens, the same for every backend. A token's
// input depends on its sequence's number and its position alone.
class AttentionModel {
 public:
  explicit AttentionModel(const AttentionShape& shape)
      : shape_(shape),
        numbers_(99),
        query_(DType::kBF16, int64_t{shape.num_heads} * shape.head_dim, kHiddenSize),
        key_(DType::kBF16, int64_t{shape.num_kv_heads} * shape.head_dim, kHiddenSize),
        value_(DType::kBF16, int64_t{shape.num_kv_heads} * shape.head_dim, kHiddenSize),
        rope_(DType::kF32, shape.positions_max, shape.head_dim),
        norm_(Tensor::Random(DType::kF32, 1, kHiddenSize, numbers_)),
        head_norm_(Tensor::Random(DType::kF32, 1, shape.head_dim, numbers_)),
        bias_(Tensor::Random(DType::kF32, 1, width(), numbers_)) {
    for (Tensor* part : {&query_, &key_, &value_}) {
      *part = Tensor::Random(DType::kBF16, part->rows(), part->cols(), numbers_, 0.5f);
    }
    for (int32_t p = 0; p < shape.positions_max; ++p) {
      for (int32_t i = 0; i < shape.head_dim / 2; ++i) {
        const double angle = p * std::pow(1e4, -2.0 * i / shape.head_dim);
        rope_.Set(p, i, static_cast<float>(std::cos(angle)));
        rope_.Set(p, shape.head_dim / 2 + i, static_cast<float>(std::sin(angle)));
      }
    }
  }

  int64_t width() const {
    return int64_t{shape_.num_heads + 2 * shape_.num_kv_heads} * shape_.head_dim;
  }
  int64_t query_size() const { return int64_t{shape_.num_heads} * shape_.head_dim; }

  AttentionShape shape_;
  RandomNumbers numbers_;
  Tensor query_, key_, value_, rope_, norm_, head_norm_, bias_;
};

struct Chunk {
  int32_t sequence = 0, first_position = 0, num_tokens = 0;
  std::vector<BlockId> blocks = {};
};

enum class Leftovers : uint8_t { kZero, kNaN };

// A backend with the layer's weights and a pool whose slots hold what `leftovers` says.
class AttentionLayer {
 public:
  AttentionLayer(Backend& backend, const AttentionModel& model,
                 Leftovers leftovers = Leftovers::kNaN)
      : backend_(backend), model_(model) {
    qkv_ = Pack(backend, {&model.query_, &model.key_, &model.value_}, WeightRole::kQkv);
    rope_ = StoreVector(backend, model.rope_);
    norm_ = StoreVector(backend, model.norm_);
    head_norm_ = StoreVector(backend, model.head_norm_);
    bias_ = StoreVector(backend, model.bias_);
    const AttentionShape& shape = model.shape_;
    auto pool = backend.CreateKvPool({.num_layers = shape.num_layers,
                                      .num_blocks = shape.num_blocks,
                                      .block_size = shape.block_size,
                                      .num_kv_heads = shape.num_kv_heads,
                                      .head_dim = shape.head_dim,
                                      .dtype = shape.kv_dtype});
    EXPECT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
    if (leftovers == Leftovers::kNaN) Poison();
  }

  KvPool& pool() { return *pool_; }

  // Appends the chunks' keys and values and attends: the output of every token.
  Tensor Run(const std::vector<Chunk>& chunks, int32_t layer = 0) {
    Tensor hidden = InputOf(chunks);
    return RunOn(chunks, hidden, layer);
  }
  // Appends without attending, where only what comes after is of interest.
  void Fill(const std::vector<Chunk>& chunks) {
    Tensor hidden = InputOf(chunks);
    Append(chunks, hidden, 0);
  }

 private:
  static Tensor InputOf(const std::vector<Chunk>& chunks) {
    Tensor hidden(DType::kF32, CountTokens(chunks), kHiddenSize);
    int64_t row = 0;
    for (const Chunk& chunk : chunks) {
      for (int32_t i = 0; i < chunk.num_tokens; ++i, ++row) {
        RandomNumbers numbers(static_cast<uint64_t>(chunk.sequence) * 1000 +
                              static_cast<uint64_t>(chunk.first_position + i));
        for (float& value : hidden.Row(row)) value = numbers.Uniform(-1, 1);
      }
    }
    return hidden;
  }

  static int64_t CountTokens(const std::vector<Chunk>& chunks) {
    int64_t count = 0;
    for (const Chunk& chunk : chunks) count += chunk.num_tokens;
    return count;
  }

  // A NaN in the input makes every key and value of its token NaN.
  void Poison() {
    const AttentionShape& shape = model_.shape_;
    const int32_t per_chunk = std::max(1, shape.positions_max / shape.block_size);
    for (int32_t block = 0; block < shape.num_blocks; block += per_chunk) {
      const int32_t count = std::min(per_chunk, shape.num_blocks - block);
      Chunk chunk = {.num_tokens = count * shape.block_size};
      for (int32_t i = 0; i < count; ++i) chunk.blocks.push_back(BlockId{block + i});
      Tensor hidden(DType::kF32, chunk.num_tokens, kHiddenSize);
      for (int64_t r = 0; r < hidden.rows(); ++r) {
        std::ranges::fill(hidden.Row(r), std::numeric_limits<float>::quiet_NaN());
      }
      for (int32_t layer = 0; layer < shape.num_layers; ++layer) Append({chunk}, hidden, layer);
    }
  }

  Tensor Append(const std::vector<Chunk>& chunks, Tensor& hidden, int32_t layer) {
    const AttentionShape& shape = model_.shape_;
    std::vector<SequenceStep> sequences;
    for (const Chunk& chunk : chunks) {
      sequences.push_back({.first_position = chunk.first_position,
                           .num_tokens = chunk.num_tokens,
                           .blocks = chunk.blocks});
    }
    step_ = std::make_unique<Step>(sequences);
    Tensor query(DType::kF32, hidden.rows(), model_.query_size());
    backend_.Upload(step_->inputs());
    backend_.QkvRopeAppend({.hidden = hidden.view(),
                            .norm = {.weight = norm_.get(), .epsilon = 1e-5f},
                            .qkv = qkv_.get(),
                            .bias = shape.bias ? bias_.get() : nullptr,
                            .query_norm = shape.qk_norm ? head_norm_.get() : nullptr,
                            .key_norm = shape.qk_norm ? head_norm_.get() : nullptr,
                            .head_norm_epsilon = 1e-6f,
                            .rope = rope_.get(),
                            .num_heads = shape.num_heads,
                            .num_kv_heads = shape.num_kv_heads,
                            .head_dim = shape.head_dim,
                            .pool = pool_.get(),
                            .layer = layer,
                            .query = query.view()});
    return query;
  }

  Tensor RunOn(const std::vector<Chunk>& chunks, Tensor& hidden, int32_t layer) {
    const AttentionShape& shape = model_.shape_;
    Tensor query = Append(chunks, hidden, layer);
    Tensor out(DType::kF32, hidden.rows(), model_.query_size());
    backend_.Attention({.query = query.view(),
                        .pool = pool_.get(),
                        .layer = layer,
                        .num_heads = shape.num_heads,
                        .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
                        .window = shape.window,
                        .out = out.view()});
    EXPECT_TRUE(backend_.Synchronize().ok());
    return out;
  }

  Backend& backend_;
  const AttentionModel& model_;
  std::unique_ptr<Weight> qkv_;
  std::unique_ptr<Buffer> rope_, norm_, head_norm_, bias_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Step> step_;
};

// `count` blocks for each sequence, scattered over the pool.
std::vector<BlockId> ScatteredBlocks(const AttentionShape& shape, int32_t sequence,
                                     int32_t num_tokens) {
  std::vector<int32_t> order(shape.num_blocks);
  std::iota(order.begin(), order.end(), 0);
  RandomNumbers numbers(5);
  for (int32_t i = shape.num_blocks - 1; i > 0; --i) {
    std::swap(order[i], order[numbers.Below(i + 1)]);
  }
  std::vector<BlockId> blocks = {};
  const int32_t count = (num_tokens + shape.block_size - 1) / shape.block_size;
  for (int32_t i = 0; i < count; ++i) blocks.push_back(BlockId{order.at(sequence * count + i)});
  return blocks;
}

class AttentionTest : public ::testing::TestWithParam<BackendCase> {
 protected:
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

  // Ragged sequences: prefill, a chunk in the middle, decode; compared with the reference.
  void ExpectAgreement(const AttentionShape& shape) {
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

// Longer than two of the splits that several threads share, and not a multiple of anything.
constexpr int32_t kLongLength = 2200;

AttentionShape LongShape(int32_t window, DType dtype) {
  return {.num_heads = 5,
          .num_kv_heads = 5,
          .head_dim = 8,
          .block_size = 32,
          .num_blocks = 150,
          .window = window,
          .kv_dtype = dtype,
          .positions_max = kLongLength + 100};
}

TEST_P(AttentionTest, AgreesWithTheReferenceOverLongContexts) {
  for (const auto& [window, dtype] :
       {std::pair{0, DType::kF32}, {0, DType::kBF16}, {1500, DType::kF32}, {300, DType::kF32}}) {
    SCOPED_TRACE(testing::Message() << "window " << window << ", " << NameOf(dtype));
    const AttentionShape shape = LongShape(window, dtype);
    const AttentionModel model(shape);
    AttentionLayer layer(*backend_, model), expected(*reference_, model, Leftovers::kZero);
    const std::vector<BlockId> first = ScatteredBlocks(shape, 0, kLongLength + 10),
                               second = ScatteredBlocks(shape, 1, kLongLength + 10);
    const std::vector<std::vector<Chunk>> steps = {
        {{0, kLongLength - 20, 20, first}, {1, 0, 70, second}},
        {{1, 70, 1, second}, {0, kLongLength, 1, first}},
        {{0, kLongLength + 1, 7, first}},
    };
    for (AttentionLayer* each : {&layer, &expected}) {
      each->Fill({{0, 0, kLongLength - 20, first}});
    }
    for (const std::vector<Chunk>& step : steps) {
      ExpectNear(layer.Run(step), expected.Run(step), ToleranceFor(shape));
    }
  }
}

TEST_P(AttentionTest, AnEmptyStepDoesNothing) {
  const AttentionShape shape;
  const AttentionModel model(shape);
  AttentionLayer layer(*backend_, model);
  EXPECT_EQ(layer.Run({}).rows(), 0);
  EXPECT_EQ(layer.Run({{0, 0, 0, {}}}).rows(), 0);
}

TEST_P(AttentionTest, BlocksThatTheWindowHidesAreNotTouched) {
  // Their ids are of no block at all: reading one would abort or fault.
  const AttentionShape shape = {.num_blocks = 8, .window = 20};
  const AttentionModel model(shape);
  AttentionLayer layer(*backend_, model), expected(*backend_, model);
  std::vector<BlockId> blocks = ScatteredBlocks(shape, 0, 101);
  layer.Run({{0, 0, 100, blocks}});
  expected.Run({{0, 0, 100, blocks}});
  const Tensor whole = expected.Run({{0, 100, 1, blocks}});
  for (int32_t i = 0; i < 5; ++i) blocks[i] = BlockId{-1};  // positions up to 79; 81 are hidden
  ExpectSameBits(layer.Run({{0, 100, 1, blocks}}).Row(0), whole.Row(0));
}

TEST_P(AttentionTest, SmallBlocksThatTheWindowHidesAreNotTouched) {
  const AttentionShape shape = {.block_size = 4, .num_blocks = 30, .window = 21};
  const AttentionModel model(shape);
  AttentionLayer layer(*backend_, model), expected(*backend_, model);
  std::vector<BlockId> blocks = ScatteredBlocks(shape, 0, 101);
  layer.Run({{0, 0, 100, blocks}});
  expected.Run({{0, 0, 100, blocks}});
  const Tensor whole = expected.Run({{0, 100, 1, blocks}});
  // Positions up to 79. Far away, so that it would fault, not read a neighbour.
  for (int32_t i = 0; i < 20; ++i) blocks[i] = BlockId{-(1 << 30)};
  ExpectSameBits(layer.Run({{0, 100, 1, blocks}}).Row(0), whole.Row(0));
}

class AttentionBitsTest : public AttentionTest {
 protected:
  void SetUp() override {
    AttentionTest::SetUp();
    if (!IsSkipped() && !GetParam().keeps_rows_apart) {
      GTEST_SKIP() << "not promised by this product on this machine";
    }
  }

  static constexpr int32_t kLength = 150;

  // Of one sequence, computed alone and at once.
  static Tensor Alone(Backend& backend, const AttentionModel& model) {
    AttentionLayer layer(backend, model);
    return layer.Run({{7, 0, kLength, ScatteredBlocks(model.shape_, 0, kLength)}});
  }
};

std::vector<AttentionShape> ShapesForBits() {
  return {{.num_heads = 4, .num_kv_heads = 4, .head_dim = 16, .num_blocks = 32},
          {.num_heads = 14,
           .num_kv_heads = 2,
           .head_dim = 64,
           .num_blocks = 32,
           .kv_dtype = DType::kBF16},
          {.num_heads = 6, .num_kv_heads = 2, .head_dim = 20, .num_blocks = 32, .window = 37}};
}

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

// However long contexts are shared out: by token and head, or by split.
TEST_P(AttentionBitsTest, LongContextsGiveTheSameBitsWithAnyThreadsAndChunks) {
  for (const int32_t window : {0, 1500}) {
    const AttentionShape shape = LongShape(window, DType::kBF16);
    const AttentionModel model(shape);
    const std::vector<BlockId> blocks = ScatteredBlocks(shape, 0, kLongLength),
                               other = ScatteredBlocks(shape, 1, kLongLength);
    AttentionLayer alone(*backend_, model);
    const Tensor whole = alone.Run({{7, 0, kLongLength, blocks}});
    for (const int32_t num_threads : {1, 2, 4, 13}) {
      SCOPED_TRACE(testing::Message() << "window " << window << ", " << num_threads << " threads");
      const auto backend = GetParam().create(num_threads);
      AttentionLayer layer(*backend, model);
      const auto expect_same = [&](const Tensor& rows, int32_t from, int32_t begin, int32_t count) {
        for (int32_t i = 0; i < count; ++i) {
          ExpectSameBits(rows.Row(from + i), whole.Row(begin + i));
        }
      };
      expect_same(layer.Run({{7, 0, 1020, blocks}}), 0, 0, 1020);
      expect_same(layer.Run({{7, 1020, 1090, blocks}, {3, 0, 90, other}}), 0, 1020, 1090);
      expect_same(layer.Run({{3, 90, 1, other}, {7, 2110, 50, blocks}}), 1, 2110, 50);
      for (int32_t i = 2160; i < kLongLength; ++i) {
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
    for (const int32_t block_size : {1, 2, 8, 64, 256}) {
      SCOPED_TRACE(testing::Message() << "blocks of " << block_size);
      shape.block_size = block_size;
      shape.num_blocks = std::max(2, 256 / block_size);
      const AttentionModel other(shape);
      const Tensor result = Alone(*backend_, other);
      for (int32_t i = 0; i < kLength; ++i) ExpectSameBits(result.Row(i), whole.Row(i));
    }
  }
}

TEST_P(AttentionBitsTest, TheNumberOfThreadsChangesNothing) {
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
  // The second entry only reads what the first one writes: as after a hit on a block in flight.
  const Tensor both = layer.Run({{7, 0, kLength, blocks}, {7, kLength - 1, 1, blocks}});
  ExpectSameBits(both.Row(kLength), whole.Row(kLength - 1));
}

TEST_P(AttentionBitsTest, CopiedSlotsAreUsedAsTheOriginalsAndNothingElseIsCopied) {
  for (const int32_t block_size : {4, 16, 64}) {
    SCOPED_TRACE(testing::Message() << "blocks of " << block_size);
    const AttentionShape shape = {.block_size = block_size, .num_blocks = 13, .num_layers = 2};
    const AttentionModel model(shape);
    AttentionLayer layer(*backend_, model);
    const int32_t length = block_size + block_size / 2 + 1;  // the second block a bit over half
    std::vector<BlockId> blocks = {BlockId{3}, BlockId{8}};
    layer.Run({{7, 0, 2 * block_size, blocks}}, 0);
    layer.Run({{7, 0, 2 * block_size, blocks}}, 1);

    // Block 11 begins as another sequence's; of the copy only the first slots may change.
    layer.Run({{4, 0, block_size, {BlockId{11}}}}, 0);
    const std::vector<BlockCopy> copies = {
        {.from = BlockId{8}, .to = BlockId{11}, .num_tokens = length - block_size}};
    backend_->CopyBlocks(layer.pool(), copies);
    for (const int32_t at_layer : {0, 1}) {
      const Tensor original = layer.Run({{7, length, 1, blocks}}, at_layer);
      const Tensor copied = layer.Run({{7, length, 1, {BlockId{3}, BlockId{11}}}}, at_layer);
      ExpectSameBits(copied.Row(0), original.Row(0));
    }
    // Slot `length - block_size + 1` and after are still the other sequence's.
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
  for (const bool reference : {false, true}) {
    auto backend = CreateCpuBackend({.num_threads = 1, .reference = reference});
    ASSERT_TRUE(backend.ok());
    KvPoolShape shape = {
        .num_layers = 1, .num_blocks = 1, .block_size = 24, .num_kv_heads = 1, .head_dim = 8};
    EXPECT_EQ((*backend)->CreateKvPool(shape).status().code(), absl::StatusCode::kInvalidArgument);
    shape.block_size = 512;
    EXPECT_EQ((*backend)->CreateKvPool(shape).status().code(), absl::StatusCode::kInvalidArgument);
    shape.block_size = 16;
    shape.dtype = DType::kF16;
    EXPECT_EQ((*backend)->CreateKvPool(shape).status().code(), absl::StatusCode::kInvalidArgument);
    shape.dtype = DType::kF32;
    shape.num_layers = 0;
    EXPECT_EQ((*backend)->CreateKvPool(shape).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace incipit
