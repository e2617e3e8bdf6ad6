// Declares the number types of matrix elements, and views of the matrices with which a backend
// computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/enum_names.h"

namespace incipit {

enum class DType : uint8_t { kF32, kF16, kBF16 };

constexpr size_t ByteSize(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }
inline constexpr EnumName<DType> kDTypeNames[] = {
    {DType::kF32, "f32"}, {DType::kF16, "f16"}, {DType::kBF16, "bf16"}};
constexpr std::string_view NameOf(DType dtype) { return NameIn(kDTypeNames, dtype); }

// A view of a matrix in row-major order, without gaps between rows. The view does not own the
// memory. A vector is a matrix with one row.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;

  size_t byte_size() const {
    return static_cast<size_t>(rows) * static_cast<size_t>(cols) * ByteSize(dtype);
  }
};

// A view of a read-only matrix in row-major order, without gaps between rows, for example of a
// tensor in a mapped file. The view does not own the memory.
struct ConstTensorView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;

  size_t byte_size() const {
    return static_cast<size_t>(rows) * static_cast<size_t>(cols) * ByteSize(dtype);
  }
};

}  // namespace incipit
