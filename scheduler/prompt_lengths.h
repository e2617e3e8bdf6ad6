// Statistics of recent prompts: their lengths, and how many of their tokens were cached.
#pragma once

#include <cstdint>

#include "scheduler/step_time_model.h"

namespace incipit {

// Sums over several prompts.
struct PromptSums {
  int64_t num_tokens = 0;
  int64_t squares = 0;  // sum of the squared lengths

  // Adds a prompt of `length` tokens if `factor` is 1, and removes the prompt if `factor` is -1.
  void Add(int64_t length, int64_t factor = 1) {
    num_tokens += factor * length;
    squares += factor * length * length;
  }
};

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
  // mean 250. Includes the rest of `running` prompts, and the part of `waiting` prompts that is
  // probably not cached. Returns 0 without prompts.
  double mean_length(const PromptSums& running, const PromptSums& waiting) const {
    const double part = computed_part();
    const double computed = computed_ + static_cast<double>(running.num_tokens) +
                            part * static_cast<double>(waiting.num_tokens);
    const double squares = squares_ + static_cast<double>(running.squares) +
                           part * part * static_cast<double>(waiting.squares);
    return computed > 0 ? squares / computed : 0;
  }

 private:
  double prompts_ = 0, tokens_ = 0, computed_ = 0, squares_ = 0, positions_ = 0;
};

}  // namespace incipit
