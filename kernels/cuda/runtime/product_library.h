// A library's matrix products, with one implementation for a card (cuBLASLt, loaded when it is
// asked for: product_library_cuda.cpp) and one for the host emulator
// (kernels/emulator/product_library.cpp); which one, the linker decides.
//
// y = x * w^T: x bf16 [rows, columns], w bf16 [outputs, columns], y f32 [rows, outputs], all row by
// row and all at multiples of kProductAlignment bytes. Each result is summed in f32, in one piece.
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
  int64_t rows = 0, outputs = 0, columns = 0;  // columns: a multiple of 8
};

// How a library computes a product: its own words, which mean nothing to another version of it.
struct ProductAlgorithm {
  std::array<uint64_t, 8> words = {};

  bool operator==(const ProductAlgorithm&) const = default;
};

struct ProductOperands {
  const dev::bf16* x = nullptr;
  const dev::bf16* w = nullptr;
  float* y = nullptr;
  void* workspace = nullptr;  // of kProductWorkspaceBytes, which no other stream uses meanwhile
};

// REQUIRES: a device has been opened. Takes some of its memory.
class ProductLibrary {
 public:
  // UNAVAILABLE says what is missing.
  static absl::StatusOr<ProductLibrary> Load();
  ~ProductLibrary();
  ProductLibrary(ProductLibrary&&) noexcept;
  ProductLibrary& operator=(ProductLibrary&&) noexcept;

  // Of library and driver: an algorithm and its speed are of one of them alone.
  const std::string& version() const;
  // At most `count`, the one that should be the fastest first; none if there is none.
  std::vector<ProductAlgorithm> FindAlgorithms(const ProductSize& size, int32_t count) const;
  // Whether the algorithm computes products of this size.
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
