// Computes matrix products by oneDNN, with weights in oneDNN's blocked format. By default, oneDNN
// multiplies a matrix only if two conditions hold: the CPU has a fast bf16 dot instruction
// (PrefersOneDnn of simd/select.h), and each result row has the same bits in every batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/weight.h"

namespace incipit {

// The matrices for which oneDNN is used.
enum class OneDnnUse : uint8_t {
  kWherePossible,
  // oneDNN is used for a matrix only if the bits of each result row do not depend on the other rows
  // of the batch.
  kWhereRowsStayApart,
};

// Returns the version of oneDNN, and the properties of this machine by which oneDNN chooses its
// kernels: the instruction set and the sizes of the caches.
std::string DescribeOneDnn();

// The oneDNN objects that all oneDNN matrices of a backend share: the engine, the stream, and one
// primitive for each matrix shape and number of rows. The context must outlive the matrices.
class OneDnnContext {
 public:
  OneDnnContext(const simd::Kernels& kernels, const Threads& threads, HostMemory& memory);
  ~OneDnnContext();

  // Packs a matrix. Returns UNIMPLEMENTED if oneDNN has no product for the type of the matrix on
  // this machine. If the weights are bf16, the product rounds the activations to bf16.
  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const MatrixSource& source, OneDnnUse use);

  // Returns the first error of a matrix product since the previous call of TakeError. Returns OK if
  // all products have succeeded.
  absl::Status TakeError();

 private:
  class State;
  class Matrix;
  std::unique_ptr<State> state_;
};

}  // namespace incipit
