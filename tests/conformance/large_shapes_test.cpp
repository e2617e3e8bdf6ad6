// Tests the shapes of an 8B model on a device. The device computes every result, and the host
// checks a sample of the results by the definition. The emulated device computes smaller shapes of
// the same form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/backend.h"
#include "kernels/numeric.h"
#include "tests/conformance/attention_layer.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

// Tolerance of an f32 sum in any order, relative to the sum of the magnitudes of its terms. A sum
// has at most about ten thousand terms. A few inputs may be rounded to bf16 in the other direction.
constexpr double kSumTolerance = 5e-5;
// Tolerance of a result that is rounded to bf16, relative to the result.
constexpr double kRoundedTolerance = 1.0 / 128;
constexpr int32_t kSamples = 48;

struct LargeWidths {
  int64_t hidden, intermediate, qkv, vocab;
};

// Returns bf16 numbers of either sign with magnitudes from 2^-7 to 2^-5, computed four at a time.
// Tensor::Random would take minutes for the head of a large model.
Tensor QuickMatrix(int64_t rows, int64_t cols, uint64_t seed) {
  Tensor matrix(DType::kBF16, rows, cols);
  const TensorView view = matrix.view();
  uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (size_t i = 0; i + 8 <= view.byte_size(); i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const uint64_t four = (state & 0x80FF80FF80FF80FF) | 0x3C003C003C003C00;
    std::memcpy(static_cast<std::byte*>(view.data) + i, &four, sizeof(four));
  }
  return matrix;
}

struct Sum {
  double value = 0, magnitude = 0;
};

Sum DotProduct(std::span<const float> x, const Tensor& weight, int64_t row) {
  Sum sum;
  for (int64_t k = 0; k < weight.cols(); ++k) {
    const double term = static_cast<double>(x[static_cast<size_t>(k)]) * weight.At(row, k);
    sum.value += term;
    sum.magnitude += std::fabs(term);
  }
  return sum;
}

class LargeShapesTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    if (!GetParam().unavailable.empty()) GTEST_SKIP() << GetParam().unavailable;
    backend_ = GetParam().create(2);
  }

  LargeWidths Widths() const {
    if (GetParam().is_card) {
      return {.hidden = 4096, .intermediate = 14336, .qkv = 6144, .vocab = 128256};
    }
    return {.hidden = 256, .intermediate = 448, .qkv = 384, .vocab = 1008};
  }
  std::vector<int32_t> RowCounts() const {
    if (GetParam().is_card) return {1, 8, 31, 64, 256};
    return {1, 31, 72};
  }

  // An element of a result that the host checks: a corner or a random element.
  struct Element {
    int64_t row, column;
  };
  std::vector<Element> Sampled(int64_t rows, int64_t columns) {
    std::vector<Element> elements = {
        {0, 0}, {0, columns - 1}, {rows - 1, 0}, {rows - 1, columns - 1}};
    while (std::ssize(elements) < kSamples) {
      elements.push_back({numbers_.Below(static_cast<int32_t>(rows)),
                          numbers_.Below(static_cast<int32_t>(columns))});
    }
    return elements;
  }

  // Returns numbers that bf16 represents exactly, so that the device does not round its inputs.
  Tensor Activations(int32_t rows, int64_t cols) {
    Tensor x(DType::kF32, rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      for (float& value : x.Row(r)) value = WidenBF16(NarrowBF16(numbers_.Uniform(-1, 1)));
    }
    return x;
  }

  static std::vector<float> Normalized(std::span<const float> row) {
    double squares = 0;
    for (const float value : row) squares += static_cast<double>(value) * value;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(row.size()) + 1e-5);
    std::vector<float> result;
    for (const float value : row) {
      result.push_back(WidenBF16(NarrowBF16(static_cast<float>(value * factor))));
    }
    return result;
  }
  std::unique_ptr<Buffer> StoreOnes(int64_t size) {
    Tensor ones(DType::kF32, 1, size);
    std::ranges::fill(ones.Row(0), 1.0f);
    return StoreVector(*backend_, ones);
  }

  void ExpectProjections(int64_t outputs, int64_t inputs) {
    const Tensor weight = QuickMatrix(outputs, inputs, 1);
    const auto packed = Pack(*backend_, {&weight}, WeightRole::kOutput);
    for (const int32_t rows : RowCounts()) {
      SCOPED_TRACE(testing::Message() << rows << " x " << inputs << " x " << outputs);
      Tensor x = Activations(rows, inputs), hidden(DType::kF32, rows, outputs);
      const auto step = PlainStep(rows);
      step->UploadTo(*backend_);
      backend_->ProjectAdd(
          {.x = x.view(), .weight = packed.get(), .bias = nullptr, .hidden = hidden.view()});
      ASSERT_TRUE(backend_->Synchronize().ok());
      for (const Element& element : Sampled(rows, outputs)) {
        const Sum sum = DotProduct(x.Row(element.row), weight, element.column);
        ASSERT_NEAR(hidden.At(element.row, element.column), sum.value,
                    kSumTolerance * sum.magnitude)
            << "row " << element.row << ", column " << element.column;
      }
    }
  }

  std::unique_ptr<Backend> backend_;
  RandomNumbers numbers_{23};
};

TEST_P(LargeShapesTest, ProjectionsAgreeWithTheDefinition) {
  const LargeWidths widths = Widths();
  ExpectProjections(widths.qkv, widths.hidden);
  ExpectProjections(widths.hidden, widths.hidden);
  ExpectProjections(widths.hidden, widths.intermediate);
}

TEST_P(LargeShapesTest, GateAndUpAgreeWithTheDefinition) {
  const LargeWidths widths = Widths();
  const Tensor gate = QuickMatrix(widths.intermediate, widths.hidden, 2);
  const Tensor up = QuickMatrix(widths.intermediate, widths.hidden, 3);
  const auto weight = Pack(*backend_, {&gate, &up}, WeightRole::kGateUp);
  const auto norm = StoreOnes(widths.hidden);
  for (const int32_t rows : RowCounts()) {
    SCOPED_TRACE(testing::Message() << rows << " rows");
    Tensor hidden = Activations(rows, widths.hidden), out(DType::kF32, rows, widths.intermediate);
    const auto step = PlainStep(rows);
    step->UploadTo(*backend_);
    backend_->GateUpSilu({.hidden = hidden.view(),
                          .norm = {.weight = norm.get(), .epsilon = 1e-5f},
                          .gate_up = weight.get(),
                          .bias = nullptr,
                          .out = out.view()});
    ASSERT_TRUE(backend_->Synchronize().ok());
    for (const Element& element : Sampled(rows, widths.intermediate)) {
      const std::vector<float> x = Normalized(hidden.Row(element.row));
      const Sum g = DotProduct(x, gate, element.column), u = DotProduct(x, up, element.column);
      const double expected = g.value / (1 + std::exp(-g.value)) * u.value;
      const double sums = kSumTolerance * (g.magnitude * std::fabs(u.value) +
                                           u.magnitude * (std::fabs(g.value) + 1));
      ASSERT_NEAR(out.At(element.row, element.column), expected,
                  kRoundedTolerance * std::fabs(expected) + sums)
          << "row " << element.row << ", column " << element.column;
    }
  }
}

TEST_P(LargeShapesTest, LogitsAgreeWithTheDefinition) {
  const LargeWidths widths = Widths();
  const Tensor head = QuickMatrix(widths.vocab, widths.hidden, 4);
  const auto weight = Pack(*backend_, {&head}, WeightRole::kHead);
  const auto norm = StoreOnes(widths.hidden);
  for (const int32_t rows : {1, 17, 64}) {
    SCOPED_TRACE(testing::Message() << rows << " rows");
    Tensor hidden = Activations(rows, widths.hidden), logits(DType::kF32, rows, widths.vocab);
    const auto step = PlainStep(rows);
    std::vector<int32_t> wanted(static_cast<size_t>(rows));
    std::iota(wanted.begin(), wanted.end(), 0);
    step->SetLogitsRows(std::move(wanted));
    step->UploadTo(*backend_);
    backend_->Logits({.hidden = hidden.view(),
                      .norm = {.weight = norm.get(), .epsilon = 1e-5f},
                      .head = weight.get(),
                      .begin = 0,
                      .count = rows,
                      .logits = logits.view()});
    ASSERT_TRUE(backend_->Synchronize().ok());
    for (const Element& element : Sampled(rows, widths.vocab)) {
      const Sum sum = DotProduct(Normalized(hidden.Row(element.row)), head, element.column);
      ASSERT_NEAR(logits.At(element.row, element.column), sum.value, kSumTolerance * sum.magnitude)
          << "row " << element.row << ", column " << element.column;
    }
  }
}

// ---- attention: 32 query heads on 8 KV heads of 128 dimensions

class LargeAttentionTest : public LargeShapesTest {
 protected:
  void SetUp() override {
    LargeShapesTest::SetUp();
    reference_ = CreateReference();
  }

  bool is_card() const { return GetParam().is_card; }
  AttentionShape Shape(int32_t positions, int32_t num_blocks) const {
    return {.num_heads = is_card() ? 32 : 8,
            .num_kv_heads = is_card() ? 8 : 2,
            .head_dim = 128,
            .block_size = 16,
            .num_blocks = num_blocks,
            .window = 0,
            .num_layers = 1,
            .kv_dtype = DType::kBF16,
            .qk_norm = false,
            .bias = false,
            .positions_max = positions};
  }
  float Tolerance() const { return ToleranceOf(GetParam(), DType::kBF16).products; }

  std::unique_ptr<Backend> reference_;
};

std::vector<BlockId> BlocksOf(int32_t& next, int32_t num_blocks, int32_t num_tokens) {
  std::vector<BlockId> blocks;
  for (int32_t i = 0; i < num_tokens; i += 16) {
    // This stride visits every block once.
    blocks.push_back(BlockId{static_cast<int32_t>(int64_t{next++} * 7919 % num_blocks)});
  }
  return blocks;
}

// Computes one more token for each sequence of a large batch, in which one sequence is long.
TEST_P(LargeAttentionTest, ALargeBatchOfLongAndShortContextsAgreesWithTheReference) {
  const int32_t batch = is_card() ? 256 : 20, longest = is_card() ? 8300 : 300;
  const int32_t num_blocks = 16 * batch / 2 + longest / 16 + 8;
  const AttentionShape shape = Shape(longest + 4, num_blocks);
  const AttentionModel model(shape);
  AttentionLayer layer(*backend_, model), expected(*reference_, model, Leftovers::kZero);
  std::vector<Chunk> prompts, last;
  int32_t next = 0;
  for (int32_t s = 0; s < batch; ++s) {
    const int32_t length = s == batch / 2 ? longest : 1 + 7 * s % 83;
    const std::vector<BlockId> blocks = BlocksOf(next, num_blocks, length + 1);
    prompts.push_back({s, 0, length, blocks});
    last.push_back({s, length, 1, blocks});
  }
  ASSERT_LE(next, num_blocks);
  ASSERT_NE(num_blocks % 7919, 0);
  for (const Chunk& prompt : prompts) {
    expected.Fill({prompt});
    layer.Fill({prompt});
  }
  ExpectNear(layer.Run(last), expected.Run(last), Tolerance());
}

// Computes a prompt in one step and in chunks. Compares some rows with the reference.
TEST_P(LargeAttentionTest, ALongPromptAgreesWithTheReference) {
  const int32_t length = is_card() ? 8192 : 200, num_blocks = length / 16 + 8;
  const AttentionShape shape = Shape(length, num_blocks);
  const AttentionModel model(shape);
  int32_t next = 0;
  const std::vector<BlockId> blocks = BlocksOf(next, num_blocks, length);
  AttentionLayer layer(*backend_, model), chunked(*backend_, model),
      expected(*reference_, model, Leftovers::kZero);
  const Tensor whole = layer.Run({{0, 0, length, blocks}});
  expected.Fill({{0, 0, length, blocks}});
  std::vector<int32_t> rows = {0, 1, 63, 64, 127, 128, length / 2, length - 1};
  for (int32_t i = 0; i < 8; ++i) rows.push_back(numbers_.Below(length));
  for (const int32_t row : rows) {
    SCOPED_TRACE(testing::Message() << "row " << row);
    Tensor actual(DType::kF32, 1, whole.cols());
    std::ranges::copy(whole.Row(row), actual.Row(0).begin());
    ExpectNear(actual, expected.Run({{0, row, 1, blocks}}), Tolerance());
  }
  const int32_t cut = length * 3 / 5;
  chunked.Fill({{0, 0, cut, blocks}});
  const Tensor rest = chunked.Run({{0, cut, length - cut, blocks}});
  for (int32_t i = 0; i < length - cut; ++i) ExpectSameBits(rest.Row(i), whole.Row(cut + i));
}

// Tests only device backends, because the shapes are too large for the CPU backends.
INSTANTIATE_TEST_SUITE_P(Devices, LargeShapesTest, testing::ValuesIn(DeviceBackends()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Devices, LargeAttentionTest, testing::ValuesIn(DeviceBackends()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace incipit
