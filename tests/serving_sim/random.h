// A random number generator that returns the same numbers on every platform, and hashes that stand
// for text.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/types.h"

namespace incipit::serving_sim {

inline constexpr int32_t kVocabulary = 128'256;

// Returns a hash of two numbers (the finalizer of SplitMix64, by S. Vigna).
inline uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Returns token number `index` of the text `text`. Equal texts have equal tokens.
inline TokenId TextToken(uint64_t text, int64_t index) {
  return static_cast<TokenId>(Mix(text, static_cast<uint64_t>(index)) % kVocabulary);
}

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  uint64_t Bits() { return Mix(seed_, ++count_); }
  // Returns a number in [0, 1).
  double Uniform() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }
  // Returns an integer in [lo, hi], both bounds included.
  int32_t Pick(int32_t lo, int32_t hi) {
    return lo + static_cast<int32_t>(Bits() % (static_cast<uint64_t>(hi - lo) + 1));
  }
  // Returns an integer in [lo, hi] whose logarithm is uniform.
  int32_t PickLog(int32_t lo, int32_t hi) {
    return static_cast<int32_t>(std::lround(lo * std::pow(double(hi) / lo, Uniform())));
  }
  // Returns a number with the exponential distribution of this mean.
  double Exponential(double mean) { return -mean * std::log1p(-Uniform()); }
  // Returns a number with the normal distribution of mean 0 and variance 1 (Box and Muller).
  double Normal() {
    return std::sqrt(-2 * std::log1p(-Uniform())) * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

}  // namespace incipit::serving_sim
