// Functions that load or store four floating-point numbers at a time, as f32 or bf16.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

using dev::Vec4;

INCIPIT_DEVICE void UnpackFloats(const Vec4& vector, float (&values)[4]) {
  INCIPIT_UNROLL
  for (int i = 0; i < 4; ++i) values[i] = dev::BitCast<float>(vector.word[i]);
}

INCIPIT_DEVICE Vec4 PackFloats(const float (&values)[4]) {
  Vec4 vector;
  INCIPIT_UNROLL
  for (int i = 0; i < 4; ++i) vector.word[i] = dev::BitCast<uint32_t>(values[i]);
  return vector;
}

INCIPIT_DEVICE void LoadFloats(const float* address, float (&values)[4]) {
  UnpackFloats(dev::LoadGlobal(reinterpret_cast<const Vec4*>(address)), values);
}
INCIPIT_DEVICE void LoadConstantFloats(const float* address, float (&values)[4]) {
  UnpackFloats(dev::LoadConstant(reinterpret_cast<const Vec4*>(address)), values);
}
// Adds the four floats at `address` to `values`. REQUIRES: the four floats do not change while the
// kernel runs.
INCIPIT_DEVICE void AddConstantFloats(const float* address, float (&values)[4]) {
  float more[4];
  LoadConstantFloats(address, more);
  INCIPIT_UNROLL
  for (int i = 0; i < 4; ++i) values[i] = dev::Add(values[i], more[i]);
}
INCIPIT_DEVICE void StoreFloats(float* address, const float (&values)[4]) {
  dev::StoreGlobal(reinterpret_cast<Vec4*>(address), PackFloats(values));
}

INCIPIT_DEVICE void StoreBF16s(dev::bf16* address, const float (&values)[4]) {
  const dev::Vec2 pairs = {{dev::PackBF16(values[0], values[1]),  //
                            dev::PackBF16(values[2], values[3])}};
  dev::StoreGlobal(reinterpret_cast<dev::Vec2*>(address), pairs);
}

// Returns the sum of `value` over the 32 lanes of the warp, added in a fixed order. All lanes
// receive the same bits.
INCIPIT_DEVICE float SumWarp(float value) {
  INCIPIT_UNROLL
  for (int mask = 16; mask > 0; mask /= 2) {
    value = dev::Add(value, dev::ShuffleXorWarp(value, mask));
  }
  return value;
}

}  // namespace incipit::cuda
