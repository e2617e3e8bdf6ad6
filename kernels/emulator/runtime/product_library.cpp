// Emulates the matrix product library (kernels/cuda/runtime/product_library.h) on the CPU. The
// emulated library has two algorithms, which add the terms of each sum in opposite orders.
#include "kernels/cuda/runtime/product_library.h"

#include <atomic>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "kernels/emulator/runtime/host_call.h"
#include "kernels/emulator/runtime/library_control.h"

namespace incipit::cuda {
namespace {

constexpr ProductAlgorithm kForwards = {{1, 0, 0, 0, 0, 0, 0, 7}};
constexpr ProductAlgorithm kBackwards = {{2, 0, 0, 0, 0, 0, 0, 7}};

std::atomic<bool> is_there = true;
std::atomic<int64_t> num_products = 0;

absl::Status CheckOperand(std::string_view name, const void* data, int64_t bytes) {
  if (!emulator::IsAllocated(data, static_cast<size_t>(bytes))) {
    return Internal("the {1} bytes of operand {0} are in memory that is not allocated", name,
                    bytes);
  }
  if (reinterpret_cast<uintptr_t>(data) % kProductAlignment != 0) {
    return Internal("the address of operand {} is not a multiple of {} bytes", name,
                    kProductAlignment);
  }
  return absl::OkStatus();
}

bool Overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto* const first = static_cast<const char*>(a);
  const auto* const second = static_cast<const char*>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

absl::Status CheckOperands(const ProductSize& size, const ProductOperands& operands) {
  const int64_t x_bytes = size.rows * size.columns * 2, w_bytes = size.outputs * size.columns * 2;
  const int64_t y_bytes = size.rows * size.outputs * 4, workspace = kProductWorkspaceBytes;
  INCIPIT_RETURN_IF_ERROR(CheckOperand("x", operands.x, x_bytes));
  INCIPIT_RETURN_IF_ERROR(CheckOperand("w", operands.w, w_bytes));
  INCIPIT_RETURN_IF_ERROR(CheckOperand("y", operands.y, y_bytes));
  INCIPIT_RETURN_IF_ERROR(CheckOperand("workspace", operands.workspace, workspace));
  for (const auto& [data, bytes] : {std::pair<const void*, int64_t>{operands.x, x_bytes},
                                    {operands.w, w_bytes},
                                    {operands.workspace, workspace}}) {
    if (Overlap(operands.y, y_bytes, data, bytes)) {
      return Internal("the result of a product overlaps a factor or the workspace");
    }
  }
  return absl::OkStatus();
}

float DotProduct(const dev::bf16* x, const dev::bf16* w, int64_t columns, bool backwards) {
  float sum = 0;
  for (int64_t i = 0; i < columns; ++i) {
    const int64_t k = backwards ? columns - 1 - i : i;
    sum += dev::ToFloat(x[k]) * dev::ToFloat(w[k]);
  }
  return sum;
}

// Computes the matrix product y = x * w^T. Also overwrites 8 bytes of the workspace, as a GPU
// library may do.
void Compute(const ProductSize& size, bool backwards, const ProductOperands& operands) {
  *static_cast<uint64_t*>(operands.workspace) = ~uint64_t{0};
  for (int64_t row = 0; row < size.rows; ++row) {
    for (int64_t output = 0; output < size.outputs; ++output) {
      operands.y[row * size.outputs + output] =
          DotProduct(operands.x + row * size.columns, operands.w + output * size.columns,
                     size.columns, backwards);
    }
  }
  ++num_products;
}

}  // namespace

struct ProductLibrary::State {
  std::string version = "host products 1";
};

ProductLibrary::ProductLibrary(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProductLibrary::~ProductLibrary() = default;
ProductLibrary::ProductLibrary(ProductLibrary&&) noexcept = default;
ProductLibrary& ProductLibrary::operator=(ProductLibrary&&) noexcept = default;

absl::StatusOr<ProductLibrary> ProductLibrary::Load() {
  if (!is_there)
    return Unavailable(
        "a test has made the matrix product library of the emulated device unavailable");
  return ProductLibrary(std::make_unique<State>());
}

const std::string& ProductLibrary::version() const { return state_->version; }

std::vector<ProductAlgorithm> ProductLibrary::FindAlgorithms(const ProductSize& size,
                                                             int32_t count) const {
  std::vector<ProductAlgorithm> algorithms;
  for (const ProductAlgorithm& algorithm : {kBackwards, kForwards}) {
    if (std::ssize(algorithms) < count && Offers(size, algorithm)) algorithms.push_back(algorithm);
  }
  return algorithms;
}

bool ProductLibrary::Offers(const ProductSize& size, const ProductAlgorithm& algorithm) const {
  return size.rows > 0 && size.outputs > 0 && size.columns > 0 && size.columns % 8 == 0 &&
         (algorithm == kForwards || algorithm == kBackwards);
}

absl::Status ProductLibrary::Multiply(Stream& stream, const ProductSize& size,
                                      const ProductAlgorithm& algorithm,
                                      const ProductOperands& operands) const {
  if (!Offers(size, algorithm)) {
    return Internal(
        "the chosen algorithm does not support a matrix product of {} rows, {} terms per sum and "
        "{} columns",
        size.rows, size.columns, size.outputs);
  }
  EnqueueCall(stream, [size, operands, backwards = algorithm == kBackwards] {
    absl::Status status = CheckOperands(size, operands);
    if (status.ok()) Compute(size, backwards, operands);
    return status;
  });
  return absl::OkStatus();
}

}  // namespace incipit::cuda

namespace incipit::emulator {

void SetLibraryIsThere(bool is_there) { cuda::is_there = is_there; }
int64_t NumLibraryProducts() { return cuda::num_products; }

}  // namespace incipit::emulator
