// Tests ProjectAdd, which adds a matrix product to the hidden state and also prepares the next
// norm. The tests check the next operation's result, the cases in which the prepared norm must not
// be used, and the kernels that a step launches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/cuda/host/memory.h"
#include "kernels/emulator/runtime/graph_counts.h"
#include "kernels/numeric.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

// Matrix sizes for which the last unit of 16 columns is not full. The rows of the product's input x
// do not begin at multiples of 16 bytes.
constexpr int64_t kHidden = 1112, kInner = 172, kOut = 40;
constexpr int32_t kRows = 200;

int64_t NormLaunches() { return emulator::LaunchesOf("Norm<"); }

// Rows of a matrix, in memory of the emulated device.
class DeviceRows {
 public:
  DeviceRows(const Tensor& from, int32_t begin, int32_t count, DType dtype)
      : view_{.data = nullptr, .dtype = dtype, .rows = count, .cols = from.cols()},
        memory_(*cuda::Memory::Allocate(cuda::Place::kPinned, view_.byte_size())) {
    view_.data = memory_.data();
    for (int32_t row = 0; row < count; ++row) Set(row, from.Row(begin + row));
  }
  void Set(int32_t row, std::span<const float> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t index = static_cast<size_t>(row * view_.cols) + i;
      if (view_.dtype == DType::kF32) {
        memory_.as<float>()[index] = values[i];
      } else {
        memory_.as<uint16_t>()[index] = NarrowBF16(values[i]);
      }
    }
  }
  const TensorView& view() const { return view_; }
  Tensor ToHost() const {
    Tensor host(DType::kF32, view_.rows, view_.cols);
    for (int64_t row = 0; row < view_.rows; ++row) {
      for (int64_t column = 0; column < view_.cols; ++column) {
        host.Set(row, column, LoadF32(view_.data, view_.dtype, row * view_.cols + column));
      }
    }
    return host;
  }

 private:
  TensorView view_;
  cuda::Memory memory_;
};

Tensor RoundedToBF16(Tensor tensor) {
  for (int64_t row = 0; row < tensor.rows(); ++row) {
    for (float& value : tensor.Row(row)) value = WidenBF16(NarrowBF16(value));
  }
  return tensor;
}

class NextNormTest : public testing::Test {
 protected:
  static constexpr float kEpsilon = 1e-5F;

  struct Weights {
    std::unique_ptr<Weight> down, gate_up;
    std::unique_ptr<Buffer> norm, other_norm;
  };
  Weights WeightsOn(Backend& backend) const {
    return {.down = Pack(backend, {&down_}, WeightRole::kDown),
            .gate_up = Pack(backend, {&gate_, &up_}, WeightRole::kGateUp),
            .norm = StoreVector(backend, norm_),
            .other_norm = StoreVector(backend, other_norm_)};
  }
  NormArgs Norm(const Buffer& weight) const { return {.weight = &weight, .epsilon = kEpsilon}; }

  void ProjectAdd(const DeviceRows& x, const DeviceRows& hidden, const Buffer* next_norm) {
    backend_->ProjectAdd({.x = x.view(),
                          .weight = weights_.down.get(),
                          .bias = nullptr,
                          .hidden = hidden.view(),
                          .next_norm = next_norm});
  }
  void GateUpSilu(const DeviceRows& hidden, const Buffer& norm, const DeviceRows& out) {
    backend_->GateUpSilu({.hidden = hidden.view(),
                          .norm = Norm(norm),
                          .gate_up = weights_.gate_up.get(),
                          .bias = nullptr,
                          .out = out.view()});
  }
  void Wait() {
    const absl::Status status = backend_->Synchronize();
    ASSERT_TRUE(status.ok()) << status;
  }
  DeviceRows XOf(int32_t begin, int32_t count) const { return {x_, begin, count, DType::kBF16}; }
  DeviceRows HiddenOf(int32_t begin, int32_t count) const {
    return {hidden_, begin, count, DType::kF32};
  }
  DeviceRows OutOf(int32_t count) const { return {zeros_, 0, count, DType::kBF16}; }

  // Runs ProjectAdd and then GateUpSilu in one step, for the rows [begin, begin + count). Returns
  // the result of GateUpSilu.
  Tensor Both(int32_t begin, int32_t count) {
    const auto step = PlainStep(count);
    const DeviceRows x = XOf(begin, count), hidden = HiddenOf(begin, count), out = OutOf(count);
    step->UploadTo(*backend_);
    ProjectAdd(x, hidden, weights_.norm.get());
    GateUpSilu(hidden, *weights_.norm, out);
    Wait();
    return out.ToHost();
  }

  RandomNumbers numbers_{31};
  const Tensor down_ = Tensor::Random(DType::kBF16, kHidden, kInner, numbers_);
  const Tensor gate_ = Tensor::Random(DType::kBF16, kOut, kHidden, numbers_, 0.1F);
  const Tensor up_ = Tensor::Random(DType::kBF16, kOut, kHidden, numbers_, 0.1F);
  const Tensor norm_ = Tensor::Random(DType::kF32, 1, kHidden, numbers_);
  const Tensor other_norm_ = Tensor::Random(DType::kF32, 1, kHidden, numbers_);
  const Tensor x_ = RoundedToBF16(Tensor::Random(DType::kF32, kRows, kInner, numbers_));
  // A test scales the rows by different factors, so that the norm of one row is wrong for another
  // row.
  Tensor hidden_ = Tensor::Random(DType::kF32, kRows, kHidden, numbers_);
  const Tensor zeros_{DType::kF32, kRows, kOut};
  const std::unique_ptr<Backend> backend_ = *CreateCudaBackend({});
  const Weights weights_ = WeightsOn(*backend_);
};

TEST_F(NextNormTest, GivesWhatTheReferenceGivesAndTheSameBitsInAStepOfAnySize) {
  for (int32_t row = 0; row < kRows; ++row) {
    for (float& value : hidden_.Row(row)) value *= static_cast<float>(1 + row % 7);
  }
  const auto reference = CreateReference();
  const Weights weights = WeightsOn(*reference);
  const auto step = PlainStep(kRows);
  Tensor x = x_, hidden = hidden_, expected = zeros_;
  step->UploadTo(*reference);
  reference->ProjectAdd(
      {.x = x.view(), .weight = weights.down.get(), .bias = nullptr, .hidden = hidden.view()});
  reference->GateUpSilu({.hidden = hidden.view(),
                         .norm = Norm(*weights.norm),
                         .gate_up = weights.gate_up.get(),
                         .bias = nullptr,
                         .out = expected.view()});
  const Tensor together = Both(0, kRows);
  ExpectNear(together, expected, kBF16ActivationTolerance.products);
  for (const int32_t count : {1, 2, 8, 9, 16, 17, 32, 33, 64, 65, 130}) {
    SCOPED_TRACE(testing::Message() << count << " rows");
    const int32_t begin = numbers_.Below(kRows - count + 1);
    const int64_t launched = NormLaunches();
    const Tensor alone = Both(begin, count);
    EXPECT_EQ(NormLaunches() - launched, count > 64 ? 1 : 0);
    for (int32_t row = 0; row < count; ++row) {
      ExpectSameBits(alone.Row(row), together.Row(begin + row));
    }
  }
}

TEST_F(NextNormTest, ARowThatIsNotFiniteStaysAlone) {
  const Tensor clean = Both(0, 12);
  hidden_.Row(5)[77] = std::numeric_limits<float>::quiet_NaN();
  const Tensor dirty = Both(0, 12);
  for (int32_t row = 0; row < 12; ++row) {
    if (row == 5) {
      for (const float value : dirty.Row(row)) EXPECT_TRUE(std::isnan(value));
    } else {
      ExpectSameBits(dirty.Row(row), clean.Row(row));
    }
  }
}

// Plants mistakes: GateUpSilu uses another norm or another hidden state than ProjectAdd has
// prepared.
TEST_F(NextNormTest, AnotherNormOrAnotherHiddenAborts) {
  // This style is needed because packing the weights has started threads.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto step = PlainStep(3);
  const DeviceRows x = XOf(0, 3), hidden = HiddenOf(0, 3), other = HiddenOf(3, 3), out = OutOf(3);
  step->UploadTo(*backend_);
  ProjectAdd(x, hidden, weights_.norm.get());
  EXPECT_DEATH(GateUpSilu(hidden, *weights_.other_norm, out), "next.weight == norm.weight");
  EXPECT_DEATH(GateUpSilu(other, *weights_.norm, out), "next.hidden == hidden.data");
}

// Plants a mistake: a recorded graph without a norm that its steps need. The norm is missing
// because an operation before the recording had already prepared it.
TEST_F(NextNormTest, ARecordedStepBeginsWhatItTakes) {
  ASSERT_TRUE(backend_
                  ->Reserve({.tokens_max = 8,
                             .sequences_max = 8,
                             .blocks_max = 8,
                             .samples_max = 8,
                             .model = {.hidden_size = kHidden,
                                       .intermediate_size = kInner,
                                       .vocab_size = 37,
                                       .num_heads = 1,
                                       .num_kv_heads = 1,
                                       .head_dim = 64,
                                       .block_size = 16,
                                       .windows = {0}}})
                  .ok());
  const OwnedStep step({{.num_tokens = 1, .blocks = {BlockId{0}}},
                        {.num_tokens = 1, .blocks = {BlockId{1}}},
                        {.num_tokens = 1, .blocks = {BlockId{2}}}});
  const DeviceRows x = XOf(0, 3), out = OutOf(3), expected = OutOf(3);
  DeviceRows hidden = HiddenOf(0, 3);
  const emulator::GraphCounts before = emulator::CountsOfGraphs();
  for (int run = 0; run < 3; ++run) {
    if (run == 2) hidden.Set(1, hidden_.Row(20));
    step.UploadTo(*backend_);
    if (run < 2) ProjectAdd(x, hidden, weights_.norm.get());
    backend_->RunStep(this, [&] { GateUpSilu(hidden, *weights_.norm, out); });
    Wait();
  }
  EXPECT_EQ(emulator::CountsOfGraphs().recorded, before.recorded + 1);
  EXPECT_EQ(emulator::CountsOfGraphs().launched, before.launched + 2);
  step.UploadTo(*backend_);
  GateUpSilu(hidden, *weights_.norm, expected);
  Wait();
  for (int32_t row = 0; row < 3; ++row) {
    ExpectSameBits(out.ToHost().Row(row), expected.ToHost().Row(row));
  }
}

// Plants a mistake: the hidden state changes after its norm was prepared, and the old norm is used.
TEST_F(NextNormTest, WhatWasBegunIsForgottenWhereHiddenChanges) {
  const auto step = PlainStep(3);
  const DeviceRows x = XOf(0, 3), out = OutOf(3), expected = OutOf(3);
  DeviceRows hidden = HiddenOf(0, 3), same = HiddenOf(0, 3);
  const auto expect_norm_of_hidden = [&] {
    const int64_t launched = NormLaunches();
    GateUpSilu(hidden, *weights_.norm, out);
    Wait();
    EXPECT_EQ(NormLaunches() - launched, 1);
    const Tensor values = hidden.ToHost(), result = out.ToHost();
    for (int32_t row = 0; row < 3; ++row) same.Set(row, values.Row(row));
    step->UploadTo(*backend_);
    GateUpSilu(same, *weights_.norm, expected);
    Wait();
    for (int32_t row = 0; row < 3; ++row) {
      ExpectSameBits(result.Row(row), expected.ToHost().Row(row));
    }
  };
  step->UploadTo(*backend_);
  ProjectAdd(x, hidden, weights_.norm.get());
  ProjectAdd(x, hidden, nullptr);  // adds the product a second time
  expect_norm_of_hidden();

  step->UploadTo(*backend_);
  ProjectAdd(x, hidden, weights_.norm.get());
  Wait();
  hidden.Set(1, hidden_.Row(9));
  expect_norm_of_hidden();

  step->UploadTo(*backend_);
  ProjectAdd(x, hidden, weights_.norm.get());
  Wait();
  hidden.Set(2, hidden_.Row(8));
  step->UploadTo(*backend_);
  expect_norm_of_hidden();

  const Tensor table = Tensor::Random(DType::kBF16, 37, kHidden, numbers_);
  const auto embedding = Pack(*backend_, {&table}, WeightRole::kEmbedding);
  step->UploadTo(*backend_);
  ProjectAdd(x, hidden, weights_.norm.get());
  backend_->Embed({.table = embedding.get(), .hidden = hidden.view()});
  expect_norm_of_hidden();
}

}  // namespace
}  // namespace incipit
