#include "transformer/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace incipit {
namespace {

// Returns theta^(2 * pair / head_dim). The reciprocal of this number is the RoPE frequency of pair
// number `pair` without scaling. Computes the power in double precision and rounds the result to
// f32.
float PairPeriod(const RopeConfig& rope, int32_t pair, int32_t head_dim) {
  const float exponent = static_cast<float>(2 * pair) / static_cast<float>(head_dim);
  return static_cast<float>(
      std::pow(static_cast<double>(static_cast<float>(rope.theta)), static_cast<double>(exponent)));
}

// Scales a RoPE frequency as Llama 3 does. Keeps a high frequency unchanged, and divides a low
// frequency by rope.factor. For a frequency between high and low, returns a weighted mean of the
// unchanged and the divided frequency.
float ScaleLlama3(const RopeConfig& rope, float frequency) {
  const double length = rope.original_max_positions;
  const auto factor = static_cast<float>(rope.factor);
  const auto longest_kept = static_cast<float>(length / rope.high_freq_factor);
  const auto shortest_stretched = static_cast<float>(length / rope.low_freq_factor);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  if (wavelength > shortest_stretched) return frequency / factor;
  if (wavelength < longest_kept) return frequency;
  const float smooth =
      (static_cast<float>(length) / wavelength - static_cast<float>(rope.low_freq_factor)) /
      static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

struct Ramp {
  double begin = 0, end = 0;
};

// Returns the range of RoPE pairs in which YaRN mixes two frequencies: the original frequency, and
// the frequency divided by rope.factor. Over the original context length, the first pair of the
// range makes about beta_fast full turns, and the last pair about beta_slow.
Ramp YarnRamp(const RopeConfig& rope, int32_t head_dim) {
  const auto pair_of = [&](double num_turns) {
    return head_dim * std::log(rope.original_max_positions / (num_turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  Ramp ramp = {pair_of(rope.beta_fast), pair_of(rope.beta_slow)};
  if (rope.truncate) ramp = {std::floor(ramp.begin), std::ceil(ramp.end)};
  ramp = {std::max(ramp.begin, 0.0), std::min(ramp.end, head_dim - 1.0)};
  if (ramp.begin == ramp.end) ramp.end += 0.001;
  return ramp;
}

float ScaleYarn(const RopeConfig& rope, const Ramp& ramp, int32_t pair, float period) {
  const float position = (static_cast<float>(pair) - static_cast<float>(ramp.begin)) /
                         static_cast<float>(ramp.end - ramp.begin);
  const float kept = 1 - std::clamp(position, 0.0F, 1.0F);
  const float interpolated = 1 / (static_cast<float>(rope.factor) * period);
  return interpolated * (1 - kept) + 1 / period * kept;
}

}  // namespace

std::vector<float> InverseFrequencies(const RopeConfig& rope, int32_t head_dim) {
  std::vector<float> frequencies;
  const Ramp ramp = rope.type == RopeType::kYarn ? YarnRamp(rope, head_dim) : Ramp();
  for (int32_t pair = 0; pair < head_dim / 2; ++pair) {
    const float period = PairPeriod(rope, pair, head_dim);
    float frequency = 1 / period;
    switch (rope.type) {
      case RopeType::kDefault:
        break;
      case RopeType::kLinear:
        frequency /= static_cast<float>(rope.factor);
        break;
      case RopeType::kLlama3:
        frequency = ScaleLlama3(rope, frequency);
        break;
      case RopeType::kYarn:
        frequency = ScaleYarn(rope, ramp, pair, period);
        break;
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

float RopeAttentionFactor(const RopeConfig& rope) {
  if (rope.type != RopeType::kYarn) return 1;
  if (rope.attention_factor) return static_cast<float>(*rope.attention_factor);
  const auto scale = [&](double mscale) {
    return rope.factor <= 1 ? 1 : 0.1 * mscale * std::log(rope.factor) + 1;
  };
  if (rope.mscale && rope.mscale_all_dim) {
    return static_cast<float>(scale(*rope.mscale) / scale(*rope.mscale_all_dim));
  }
  return static_cast<float>(scale(1));
}

std::vector<float> RopeTable(const RopeConfig& rope, int32_t head_dim, int32_t num_positions) {
  const std::vector<float> frequencies = InverseFrequencies(rope, head_dim);
  const float factor = RopeAttentionFactor(rope);
  const size_t half = frequencies.size();
  std::vector<float> table(static_cast<size_t>(num_positions) * 2 * half);
  for (int32_t position = 0; position < num_positions; ++position) {
    float* row = table.data() + static_cast<size_t>(position) * 2 * half;
    for (size_t pair = 0; pair < half; ++pair) {
      const float angle = static_cast<float>(position) * frequencies[pair];
      row[pair] = std::cos(angle) * factor;
      row[half + pair] = std::sin(angle) * factor;
    }
  }
  return table;
}

}  // namespace incipit
