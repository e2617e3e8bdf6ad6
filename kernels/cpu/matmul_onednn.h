// Matrix products by oneDNN, with weights in the blocked format that it asks for. It goes with dots
// of bf16 (simd/select.h), for types that the CPU has instructions for (AVX-512 for f32,
// AVX512_BF16, AVX512_VNNI); there its products give a row the same bits whatever the number of
// rows.
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

// When to take oneDNN's product.
enum class OneDnnUse : uint8_t {
  kWherePossible,
  // Only by the kernels (brgemm) that are known to give a row the same bits in every batch.
  kWhereRowsStayApart,
};

// What the matrices of one backend share: engine, stream, and the primitives made so far, one for
// each shape and number of rows. Must outlive the matrices.
class OneDnnContext {
 public:
  OneDnnContext(const simd::Kernels& kernels, const Threads& threads, HostMemory& memory);
  ~OneDnnContext();

  // UNIMPLEMENTED where oneDNN has no such product for the type on this machine. With bf16 weights,
  // activations are rounded to bf16.
  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const MatrixSource& source, OneDnnUse use);

  // What failed since the last call.
  absl::Status TakeError();

 private:
  class State;
  class Matrix;
  std::unique_ptr<State> state_;
};

}  // namespace incipit
