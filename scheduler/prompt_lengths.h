// Statistics of recent prompts: their lengths, and how many of their tokens were cached.
#pragma once

#include <cstdint>

#include "scheduler/step_time_model.h"

namespace incipit {

// Weighted means of the lengths and the cached parts of all prompts that were admitted. Each added
// prompt reduces the weight of all earlier prompts by 2 %.
class PromptLengths {
 public:
  // Adds a prompt of `num_tokens` tokens, of which `num_cached` were found in the cache.
  void Add(int32_t num_tokens, int32_t num_cached) {
    constexpr double kKept = 0.98;
    const double computed = num_tokens - num_cached;
    const auto positions = static_cast<double>(PositionsOf(num_cached, num_tokens - num_cached));
    prompts_ = kKept * prompts_ + 1;
    tokens_ = kKept * tokens_ + num_tokens;
    computed_ = kKept * computed_ + computed;
    squares_ = kKept * squares_ + computed * computed;
    positions_ = kKept * positions_ + positions;
  }

  // Returns the share of prompt tokens that were not found in the cache, from 0 to 1. Returns 1
  // before the first prompt.
  double computed_part() const { return tokens_ > 0 ? computed_ / tokens_ : 1; }
  // Returns the mean number of computed tokens of a prompt. Returns 0 before the first prompt.
  double mean_computed() const { return prompts_ > 0 ? computed_ / prompts_ : 0; }
  // Returns the mean number of positions that a computed token attends to. Returns 0 before the
  // first prompt.
  double positions_per_token() const { return computed_ > 0 ? positions_ / computed_ : 0; }
  // Returns a weighted mean of the number of computed tokens of a prompt. The weight of a prompt is
  // its number of computed tokens. For example, prompts of 100 and 300 computed tokens have the
  // mean 250. Includes waiting prompts, which have `num_waiting` tokens in total. The sum of their
  // squared lengths is `waiting_squares`. Returns 0 without prompts.
  double mean_length(int64_t num_waiting, int64_t waiting_squares) const {
    const double part = computed_part();
    const double computed = computed_ + part * static_cast<double>(num_waiting);
    const double squares = squares_ + part * part * static_cast<double>(waiting_squares);
    return computed > 0 ? squares / computed : 0;
  }

 private:
  double prompts_ = 0, tokens_ = 0, computed_ = 0, squares_ = 0, positions_ = 0;
};

}  // namespace incipit
