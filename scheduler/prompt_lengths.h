// Statistics of the lengths of recent prompts.
#pragma once

#include <cstdint>

namespace incipit {

// The typical length of a prompt, and the part of a prompt that is not cached. Each added prompt
// reduces the weight of all earlier prompts by 2 %.
class PromptLengths {
 public:
  // Adds a prompt of `num_tokens` tokens, of which `num_cached` were found in the cache.
  void Add(int32_t num_tokens, int32_t num_cached) {
    constexpr double kKept = 0.98;
    const double computed = num_tokens - num_cached;
    tokens_ = kKept * tokens_ + num_tokens;
    computed_ = kKept * computed_ + computed;
    squares_ = kKept * squares_ + computed * computed;
  }

  // Returns the number of computed tokens of all prompts divided by the number of their tokens; 1
  // before the first prompt.
  double computed_part() const { return tokens_ > 0 ? computed_ / tokens_ : 1; }
  // Returns the average number of computed tokens of the prompt to which a computed token belongs.
  // Long prompts contribute most. Returns 0 before the first prompt.
  double mean_length() const { return computed_ > 0 ? squares_ / computed_ : 0; }

 private:
  double tokens_ = 0, computed_ = 0, squares_ = 0;
};

}  // namespace incipit
