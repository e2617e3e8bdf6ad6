// Defines operations on one row of numbers. The source file of every instruction set includes this
// file inside its namespace. The result for an element does not depend on the element's position in
// a SIMD vector.
#pragma once

#include "kernels/cpu/simd/vector_math.inl"

void RmsNorm(const float* x, const float* weight, float epsilon, int64_t size, float* out) {
  constexpr int64_t kSums = 4;  // number of independent sums, which hide the latency of an addition
  Vec sums[kSums] = {Zero(), Zero(), Zero(), Zero()};
  int64_t whole = 0;
  for (; whole + kSums * Vec::kLanes <= size; whole += kSums * Vec::kLanes) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < kSums; ++j) {
      const Vec v = Load(x + whole + j * Vec::kLanes);
      sums[j] = MultiplyAdd(v, v, sums[j]);
    }
  }
  ForEachVector(size - whole, [&](int64_t i, int64_t lanes) {
    const Vec v = LoadSome(x + whole + i, lanes);
    sums[0] = MultiplyAdd(v, v, sums[0]);
  });
  const float sum = ReduceAdd(Add(Add(sums[0], sums[1]), Add(sums[2], sums[3])));
  const float mean = sum / static_cast<float>(size);
  const Vec scale = Broadcast(1 / __builtin_sqrtf(mean + epsilon));
  ForEachVector(size, [&](int64_t i, int64_t lanes) {
    StoreSome(out + i, lanes, Mul(Mul(LoadSome(x + i, lanes), scale), LoadSome(weight + i, lanes)));
  });
}

// Rounds a row to bf16 (to nearest, ties to even). A NaN becomes a quiet NaN.
void NarrowRow(const float* x, int64_t size, uint16_t* out) {
  using Bits = uint32_t __attribute__((vector_size(4 * Vec::kLanes)));
  using Halves = uint16_t __attribute__((vector_size(2 * Vec::kLanes)));
  ForEachVector(size, [&](int64_t i, int64_t lanes) {
    Bits bits = {};
    __builtin_memcpy(&bits, x + i, static_cast<uint64_t>(lanes) * sizeof(float));
    const auto is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    const Bits rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const Bits narrow = is_nan ? (bits >> 16 | 0x40) : rounded;
    const Halves halves = __builtin_convertvector(narrow, Halves);
    __builtin_memcpy(out + i, &halves, static_cast<uint64_t>(lanes) * sizeof(uint16_t));
  });
}

void Rotate(const float* rope, int64_t half, float* head) {
  ForEachVector(half, [&](int64_t i, int64_t lanes) {
    const Vec cosine = LoadSome(rope + i, lanes), sine = LoadSome(rope + half + i, lanes);
    const Vec first = LoadSome(head + i, lanes), second = LoadSome(head + half + i, lanes);
    StoreSome(head + i, lanes, NegativeMultiplyAdd(second, sine, Mul(first, cosine)));
    StoreSome(head + half + i, lanes, MultiplyAdd(first, sine, Mul(second, cosine)));
  });
}

void ExpOf(const float* x, int64_t size, float* out) {
  ForEachVector(size, [&](int64_t i, int64_t lanes) {
    StoreSome(out + i, lanes, Exp(LoadSome(x + i, lanes)));
  });
}

void Exp2Of(const float* x, int64_t size, float* out) {
  ForEachVector(size, [&](int64_t i, int64_t lanes) {
    StoreSome(out + i, lanes, Exp2(LoadSome(x + i, lanes)));
  });
}

bool ChunkMaxima(const float* logits, int64_t size, float* maxima) {
  const Vec infinity = Broadcast(__builtin_inff());
  Mask bad = NotLess(Zero(), infinity);
  for (int64_t begin = 0; begin < size; begin += kChunk) {
    Vec max = Broadcast(-__builtin_inff());
    ForEachVector(size - begin < kChunk ? size - begin : kChunk, [&](int64_t i, int64_t lanes) {
      Vec z = LoadSome(logits + begin + i, lanes);
      if (lanes < Vec::kLanes) z = SelectLanes(0, lanes, z, max);
      bad = Or(bad, NotLess(z, infinity));
      max = Max(z, max);
    });
    maxima[begin / kChunk] = ReduceMax(max);
  }
  return !Any(bad);
}

uint64_t Weigh(const float* logits, int64_t size, float max, float inverse_temperature,
               float* weights) {
  const Vec largest = Broadcast(max), inverse = Broadcast(inverse_temperature);
  MassSum sum = NoMass();
  ForEachVector(size, [&](int64_t i, int64_t lanes) {
    const Vec z = LoadSome(logits + i, lanes);
    Vec w = SamplingExp(Mul(Sub(z, largest), inverse));
    if (lanes < Vec::kLanes) w = SelectLanes(0, lanes, w, Zero());
    AddMass(w, sum);
    if (weights != nullptr) StoreSome(weights + i, lanes, w);
  });
  return TotalOf(sum);
}
