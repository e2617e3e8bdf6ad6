// Matrix products of a vendor library. The linker selects the implementation: cuBLASLt for a GPU,
// or kernels/emulator/runtime/product_library.cpp. Both implementations use only algorithms in
// which one thread block computes the whole sum of a result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

inline constexpr size_t kProductAlignment = 256;
inline constexpr size_t kProductWorkspaceBytes = size_t{32} << 20;

struct ProductSize {
  // Sizes of a product of the input x [rows, columns] and a weight. The result y has the shape
  // [rows, outputs]. `columns` is a multiple of 8.
  int64_t rows = 0, outputs = 0, columns = 0;
};

// An algorithm of cuBLASLt for one product size, in cuBLASLt's own format. Valid only for one
// version of cuBLASLt.
struct ProductAlgorithm {
  std::array<uint64_t, 8> words = {};

  bool operator==(const ProductAlgorithm&) const = default;
};

// Operands of y = x * transpose(w): x bf16 [rows, columns], w bf16 [outputs, columns], y f32 [rows,
// outputs]. All matrices are stored row by row and aligned to kProductAlignment bytes.
struct ProductOperands {
  const dev::bf16* x = nullptr;
  const dev::bf16* w = nullptr;
  float* y = nullptr;
  // Device memory of kProductWorkspaceBytes bytes. REQUIRES: no other stream uses this memory
  // during the product.
  void* workspace = nullptr;
};

// A loaded library of matrix products, which occupies some device memory. REQUIRES: OpenDevice has
// been called.
class ProductLibrary {
 public:
  // Loads the library. Returns UNAVAILABLE, with the name of the missing library or function, if
  // loading fails.
  static absl::StatusOr<ProductLibrary> Load();
  ~ProductLibrary();
  ProductLibrary(ProductLibrary&&) noexcept;
  ProductLibrary& operator=(ProductLibrary&&) noexcept;

  // Returns the versions of the library and of the driver. An algorithm that was stored with other
  // versions is not valid.
  const std::string& version() const;
  // Returns at most `count` algorithms for products of this size, in descending order of expected
  // speed. Returns an empty list if the library has no algorithm.
  std::vector<ProductAlgorithm> FindAlgorithms(const ProductSize& size, int32_t count) const;
  // Returns true if the algorithm can compute products of this size.
  bool Offers(const ProductSize& size, const ProductAlgorithm& algorithm) const;
  // Enqueues a product on `stream`. REQUIRES: Offers(size, algorithm) is true.
  absl::Status Multiply(Stream& stream, const ProductSize& size, const ProductAlgorithm& algorithm,
                        const ProductOperands& operands) const;

 private:
  struct State;
  explicit ProductLibrary(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace incipit::cuda
