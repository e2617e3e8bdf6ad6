// Converts numbers between f32 and the 16-bit floating-point formats of checkpoints and caches.
// Every backend rounds to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/tensor.h"

namespace incipit {

constexpr float WidenBF16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Returns `value` rounded to bf16. A NaN becomes a quiet NaN, because rounding up the mantissa of a
// NaN could result in an infinity.
constexpr uint16_t NarrowBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

constexpr float WidenF16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7FFFu;
  if (magnitude >= 0x7C00) {  // the f16 number is an infinity or a NaN
    return std::bit_cast<float>(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
  }
  // The exponent bias of f32 is 112 larger than the exponent bias of f16. The multiplication by
  // 2^112 also converts subnormal numbers correctly.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

// Returns element `index` of the array `data` as f32. The array may start at any address, because
// tensors in a mapped file are not aligned.
inline float LoadF32(const void* data, DType dtype, int64_t index) {
  const auto* bytes = static_cast<const char*>(data) + static_cast<size_t>(index) * ByteSize(dtype);
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return dtype == DType::kF16 ? WidenF16(bits) : WidenBF16(bits);
}

// Converts a row to f32. The main loop converts 16 elements per iteration, so that the compiler
// vectorises the loop.
inline void WidenRow(const void* data, DType dtype, std::span<float> out) {
  constexpr size_t kRun = 16;
  size_t i = 0;
  if (dtype == DType::kBF16) {
    const auto* const bytes = static_cast<const char*>(data);
    for (; i + kRun <= out.size(); i += kRun) {
      uint16_t bits[kRun];
      std::memcpy(bits, bytes + 2 * i, sizeof(bits));
      for (size_t j = 0; j < kRun; ++j) out[i + j] = WidenBF16(bits[j]);
    }
  }
  for (; i < out.size(); ++i) out[i] = LoadF32(data, dtype, static_cast<int64_t>(i));
}

}  // namespace incipit
