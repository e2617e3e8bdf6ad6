// Tests the product library of the emulated device: its results, the time at which it reads its
// inputs, and its errors on misuse.
#include "kernels/cuda/runtime/product_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>

#include "kernels/emulator/runtime/library_control.h"
#include "kernels/numeric.h"

namespace incipit::cuda {
namespace {

using ::testing::HasSubstr;

class ProductLibraryTest : public testing::Test {
 protected:
  ProductLibraryTest()
      : stream_(*Stream::Create()),
        library_(*ProductLibrary::Load()),
        x_(Filled(kSize.rows * kSize.columns)),
        w_(Filled(kSize.outputs * kSize.columns)),
        y_(*Memory::Allocate(Place::kDevice, kSize.rows * kSize.outputs * sizeof(float))),
        workspace_(*Memory::Allocate(Place::kDevice, kProductWorkspaceBytes)) {}

  Memory Filled(int64_t count) {
    Memory memory = *Memory::Allocate(Place::kDevice, static_cast<size_t>(count) * 2);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; ++i) memory.as<uint16_t>()[i] = NarrowBF16(normal(random_));
    return memory;
  }
  ProductOperands operands() const {
    return {.x = x_.as<dev::bf16>(),
            .w = w_.as<dev::bf16>(),
            .y = y_.as<float>(),
            .workspace = workspace_.data()};
  }
  ProductAlgorithm algorithm() const { return library_.FindAlgorithms(kSize, 1).at(0); }
  absl::Status Run(const ProductOperands& operands, const ProductSize& size = kSize) {
    const absl::Status status = library_.Multiply(stream_, size, algorithm(), operands);
    return status.ok() ? stream_.Wait() : status;
  }
  double Exact(int64_t row, int64_t output) const {
    double sum = 0;
    for (int64_t k = 0; k < kSize.columns; ++k) {
      sum += static_cast<double>(WidenBF16(x_.as<uint16_t>()[row * kSize.columns + k])) *
             static_cast<double>(WidenBF16(w_.as<uint16_t>()[output * kSize.columns + k]));
    }
    return sum;
  }

  static constexpr ProductSize kSize = {.rows = 5, .outputs = 48, .columns = 72};
  std::mt19937 random_{1};
  Stream stream_;
  ProductLibrary library_;
  Memory x_, w_, y_, workspace_;
};

TEST_F(ProductLibraryTest, EachAlgorithmMultipliesWhatIsThereWhenItRuns) {
  const auto algorithms = library_.FindAlgorithms(kSize, 8);
  ASSERT_EQ(algorithms.size(), 2U);
  EXPECT_EQ(library_.FindAlgorithms(kSize, 1).size(), 1U);
  for (const ProductAlgorithm& algorithm : algorithms) {
    EXPECT_TRUE(library_.Offers(kSize, algorithm));
    ASSERT_TRUE(library_.Multiply(stream_, kSize, algorithm, operands()).ok());
    x_.as<uint16_t>()[3] = NarrowBF16(2);  // changes an input before the product has run
    ASSERT_TRUE(stream_.Wait().ok());
    for (int64_t row = 0; row < kSize.rows; ++row) {
      for (int64_t output = 0; output < kSize.outputs; ++output) {
        ASSERT_NEAR(static_cast<double>(y_.as<float>()[row * kSize.outputs + output]),
                    Exact(row, output), 1e-4);
      }
    }
  }
}

TEST_F(ProductLibraryTest, AnUnknownAlgorithmIsNotOffered) {
  EXPECT_FALSE(library_.Offers(kSize, ProductAlgorithm{{99, 1}}));
  EXPECT_FALSE(library_.Offers({.rows = 5, .outputs = 48, .columns = 70}, algorithm()));
  EXPECT_FALSE(library_.Multiply(stream_, kSize, {}, operands()).ok());
}

TEST_F(ProductLibraryTest, AGraphMultipliesAgain) {
  Graph::Begin(stream_);
  ASSERT_TRUE(library_.Multiply(stream_, kSize, algorithm(), operands()).ok());
  auto graph = Graph::End(stream_);
  ASSERT_TRUE(graph.ok());
  const int64_t before = emulator::NumLibraryProducts();
  for (int i = 0; i < 2; ++i) graph->Launch(stream_);
  ASSERT_TRUE(stream_.Wait().ok());
  EXPECT_EQ(emulator::NumLibraryProducts(), before + 2);
}

TEST_F(ProductLibraryTest, ALibraryThatIsNotThereSaysSo) {
  emulator::SetLibraryIsThere(false);
  const absl::Status status = ProductLibrary::Load().status();
  emulator::SetLibraryIsThere(true);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

// ---- planted bugs

TEST_F(ProductLibraryTest, AWeightThatIsGoneWhenItIsMultipliedIsFound) {
  ASSERT_TRUE(library_.Multiply(stream_, kSize, algorithm(), operands()).ok());
  w_ = Memory();
  EXPECT_THAT(stream_.Wait().message(), HasSubstr("the 6912 bytes of operand w are"));
}

TEST_F(ProductLibraryTest, MoreRowsThanThereIsRoomForAreFound) {
  ProductSize size = kSize;
  ++size.rows;
  EXPECT_THAT(Run(operands(), size).message(), HasSubstr("memory that is not allocated"));
}

TEST_F(ProductLibraryTest, RowsThatDoNotBeginAtAMultipleAreFound) {
  ProductOperands shifted = operands();
  shifted.x += 8;
  ProductSize size = kSize;
  --size.rows;
  EXPECT_THAT(Run(shifted, size).message(),
              HasSubstr("address of operand x is not a multiple of 256 bytes"));
}

TEST_F(ProductLibraryTest, AWorkspaceThatIsTooSmallIsFound) {
  workspace_ = *Memory::Allocate(Place::kDevice, kProductWorkspaceBytes - 1);
  EXPECT_THAT(Run(operands()).message(), HasSubstr("workspace"));
}

TEST_F(ProductLibraryTest, SumsOverTheWeightAreFound) {
  ProductOperands over = operands();
  over.y = w_.as<float>();
  EXPECT_THAT(Run(over).message(), HasSubstr("overlaps a factor or the workspace"));
}

}  // namespace
}  // namespace incipit::cuda
