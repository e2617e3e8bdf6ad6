#include "cli/bench/bench_prompts.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/status.h"

namespace incipit {
namespace {

// Index of the random number stream for the prefix that all prompts share.
constexpr uint32_t kSharedStream = 0;
// Index of the random number stream for the arrival times.
constexpr uint32_t kArrivalStream = 1;
// The tokens of prompt i that follow the shared prefix use the random number stream
// kFirstPromptStream + i.
constexpr uint32_t kFirstPromptStream = 2;
// Index of the random number stream for the think times.
constexpr uint32_t kThinkStream = 0xffffffff;

// Maximum number of token ids in one call of `has_special`, the function that OrdinaryTokens()
// calls for ranges of ids.
constexpr uint32_t kRangeMax = 1024;

// Returns a random time from an exponential distribution with the mean `mean`.
double ExponentialTime(uint64_t seed, uint32_t stream, int32_t index, double mean) {
  // The random number (bits + 1) / 2^53 is above 0 and at most 1, so its logarithm is finite.
  const uint64_t bits = RandomBits(seed, stream, static_cast<uint64_t>(index)) >> 11;
  return -std::log((static_cast<double>(bits) + 1) * 0x1p-53) * mean;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> OrdinaryTokens(
    uint32_t vocab_size,
    const std::function<absl::StatusOr<bool>(uint32_t begin, uint32_t end)>& has_special) {
  // Ranges [begin, end) of token ids for which `has_special` has not been called yet.
  std::vector<std::pair<uint32_t, uint32_t>> ranges;
  for (uint64_t end = vocab_size; end > 0;) {
    const uint64_t begin = (end - 1) / kRangeMax * kRangeMax;
    ranges.emplace_back(begin, end);
    end = begin;
  }
  std::vector<uint32_t> tokens;
  while (!ranges.empty()) {
    const auto [begin, end] = ranges.back();
    ranges.pop_back();
    INCIPIT_ASSIGN_OR_RETURN(const bool special, has_special(begin, end));
    if (!special) {
      for (uint32_t id = begin; id < end; ++id) tokens.push_back(id);
    } else if (end - begin > 1) {
      const uint32_t middle = begin + (end - begin) / 2;
      ranges.emplace_back(middle, end);
      ranges.emplace_back(begin, middle);
    }
  }
  return tokens;
}

BenchPrompts::BenchPrompts(std::vector<uint32_t> tokens, uint64_t seed, int32_t num_tokens,
                           int32_t num_shared)
    : tokens_(std::move(tokens)), seed_(seed), num_tokens_(num_tokens), num_shared_(num_shared) {
  INCIPIT_CHECK(!tokens_.empty());
  INCIPIT_CHECK(num_shared_ >= 0 && num_shared_ <= num_tokens_);
}

std::vector<uint32_t> BenchPrompts::Make(int32_t index) const {
  const uint32_t own_stream = kFirstPromptStream + static_cast<uint32_t>(index);
  std::vector<uint32_t> prompt;
  prompt.reserve(static_cast<size_t>(num_tokens_));
  for (int32_t i = 0; i < num_tokens_; ++i) {
    const uint32_t stream = i < num_shared_ ? kSharedStream : own_stream;
    const uint64_t bits = RandomBits(seed_, stream, static_cast<uint64_t>(i));
    prompt.push_back(tokens_[bits % tokens_.size()]);
  }
  return prompt;
}

std::vector<double> PoissonArrivals(uint64_t seed, int32_t num_requests, double rate) {
  std::vector<double> arrivals;
  double time = 0;
  for (int32_t i = 0; i < num_requests; ++i) {
    arrivals.push_back(time);
    time += ExponentialTime(seed, kArrivalStream, i, 1 / rate);
  }
  return arrivals;
}

double ThinkTime(uint64_t seed, int32_t index, double mean) {
  return ExponentialTime(seed, kThinkStream, index, mean);
}

}  // namespace incipit
