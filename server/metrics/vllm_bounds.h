// Bucket bounds of the histograms that have the name of a metric of vLLM. The bounds are those of
// vLLM, so that a dashboard can compare servers of both programs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace incipit {

// Upper bounds, in seconds, of the buckets for the time to the first output token.
inline constexpr std::array kVllmFirstTokenBounds = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
    1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
// Upper bounds, in seconds, of the buckets for the time between two output tokens.
inline constexpr std::array kVllmInterTokenBounds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                                     0.3,  0.4,   0.5,  0.75,  1.0, 2.5,  5.0,
                                                     7.5,  10.0,  20.0, 40.0,  80.0};
// Upper bounds, in seconds, of the buckets for the duration of a request, and for the durations of
// its parts, such as prefill.
inline constexpr std::array kVllmRequestBounds = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                                  5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                                  60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
// Upper bounds of the buckets for the number of tokens in one step (batch).
inline constexpr std::array kVllmStepTokenBounds = {
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0};
// Upper bounds of the buckets for the number of choices (outputs) of a request.
inline constexpr std::array kVllmChoiceBounds = {1.0, 2.0, 5.0, 10.0, 20.0};
// Upper bounds of the buckets for the number of tokens of one request: 1, 2 and 5 times each power
// of ten.
inline constexpr auto kVllmTokenBounds = [] {
  std::array<double, 29> bounds{};
  double power = 1;
  for (size_t i = 0; i < bounds.size(); ++i) {
    constexpr std::array kFactors = {1.0, 2.0, 5.0};
    bounds[i] = kFactors[i % 3] * power;
    if (i % 3 == 2) power *= 10;
  }
  return bounds;
}();

// Returns the bounds in kVllmTokenBounds that are at most `max_model_len`.
inline std::span<const double> VllmTokenBounds(int32_t max_model_len) {
  const auto end = std::ranges::upper_bound(kVllmTokenBounds, max_model_len);
  return {kVllmTokenBounds.begin(), end};
}

}  // namespace incipit
