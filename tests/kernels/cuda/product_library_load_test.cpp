// Tests loading cuBLASLt on this machine. Either the library loads, or the error names the missing
// part. On a card, the test also finds algorithms for a product.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "kernels/cuda/runtime/product_library.h"

namespace incipit::cuda {
namespace {

TEST(ProductLibraryLoadTest, LoadsOrSaysWhatIsMissing) {
  const bool is_card = OpenDevice(0, /*loads_all=*/false).ok();
  const auto library = ProductLibrary::Load();
  if (!library.ok()) {
    EXPECT_EQ(library.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(MessageOf(library.status()), ::testing::HasSubstr("cublasLt"));
    GTEST_SKIP() << MessageOf(library.status());
  }
  EXPECT_THAT(library->version(), ::testing::StartsWith("cuBLASLt 1"));
  if (!is_card) return;
  const ProductSize size = {.rows = 2048, .outputs = 28672, .columns = 4096};
  const auto algorithms = library->FindAlgorithms(size, 4);
  EXPECT_FALSE(algorithms.empty());
  for (const ProductAlgorithm& algorithm : algorithms) {
    EXPECT_TRUE(library->Offers(size, algorithm));
    EXPECT_TRUE(library->Offers({.rows = 1999, .outputs = 28672, .columns = 4096}, algorithm));
  }
  EXPECT_FALSE(library->Offers(size, ProductAlgorithm{{~0ULL, ~0ULL, ~0ULL}}));
}

}  // namespace
}  // namespace incipit::cuda
