// Matrix products by oneDNN, with weights in oneDNN's blocked format. oneDNN is used if the CPU has
// instructions for the type (AVX-512 for f32, AVX512_BF16, AVX512_VNNI) and if attention uses the
// bf16 dot instruction (simd/select.h). oneDNN's products on such CPUs compute each row with the
// same bits for every number of rows.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/weight.h"

namespace incipit {

// When to use oneDNN for a product.
enum class OneDnnUse : uint8_t {
  kWherePossible,
  // Only if the oneDNN kernels (brgemm) compute each row with the same bits in every batch.
  kWhereRowsStayApart,
};

// The state that all oneDNN matrices of a backend share: the engine, the stream, and one primitive
// per shape and number of rows. The context must outlive the matrices.
class OneDnnContext {
 public:
  OneDnnContext(const simd::Kernels& kernels, const Threads& threads, HostMemory& memory);
  ~OneDnnContext();

  // Packs a matrix. Returns UNIMPLEMENTED if oneDNN has no product for the type on this machine.
  // For bf16 weights, activations are rounded to bf16.
  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const MatrixSource& source, OneDnnUse use);

  // Returns the first error since the previous call of TakeError, or OK.
  absl::Status TakeError();

 private:
  class State;
  class Matrix;
  std::unique_ptr<State> state_;
};

}  // namespace incipit
