// Matrix products of a vendor library. There are two implementations, and the linker selects one:
// cuBLASLt for a GPU (product_library_cuda.cpp, which loads the library on demand), and a host
// implementation for the emulator (kernels/emulator/product_library.cpp).
//
// A product is y = x * transpose of w, with x bf16 [rows, columns], w bf16 [outputs, columns] and y
// f32 [rows, outputs]. All matrices are stored row by row and begin at multiples of
// kProductAlignment bytes. Each result is one f32 sum that is not split.
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
  int64_t rows = 0, outputs = 0, columns = 0;  // `columns` is a multiple of 8
};

// The library's description of how it computes a product. Another version of the library does not
// understand the words.
struct ProductAlgorithm {
  std::array<uint64_t, 8> words = {};

  bool operator==(const ProductAlgorithm&) const = default;
};

struct ProductOperands {
  const dev::bf16* x = nullptr;
  const dev::bf16* w = nullptr;
  float* y = nullptr;
  void* workspace = nullptr;  // kProductWorkspaceBytes; no other stream uses it meanwhile
};

// REQUIRES: a device has been opened. The library allocates device memory.
class ProductLibrary {
 public:
  // Loads the library. Returns UNAVAILABLE, and names the missing part, if that fails.
  static absl::StatusOr<ProductLibrary> Load();
  ~ProductLibrary();
  ProductLibrary(ProductLibrary&&) noexcept;
  ProductLibrary& operator=(ProductLibrary&&) noexcept;

  // Returns the versions of the library and the driver. An algorithm and its speed are valid only
  // for these versions.
  const std::string& version() const;
  // Returns at most `count` algorithms, the one with the best expected speed first. The list is
  // empty if the library has none.
  std::vector<ProductAlgorithm> FindAlgorithms(const ProductSize& size, int32_t count) const;
  // Returns true if the algorithm can compute products of this size.
  bool Offers(const ProductSize& size, const ProductAlgorithm& algorithm) const;
  // Enqueues a product. REQUIRES: Offers(size, algorithm).
  absl::Status Multiply(Stream& stream, const ProductSize& size, const ProductAlgorithm& algorithm,
                        const ProductOperands& operands) const;

 private:
  struct State;
  explicit ProductLibrary(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace incipit::cuda
