#include "cli/bench/trace_prompts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/status.h"

namespace incipit {
namespace {

// Index of the random number stream for the tokens of hash ids. A hash id stands for one block.
constexpr uint32_t kBlockStream = 0;
// The tokens after the last hash id of request i use the random number stream kFirstTailStream + i.
constexpr uint32_t kFirstTailStream = 1;

// Maximum arrival time in seconds. Later times are replaced by this maximum, because a clock in
// nanoseconds overflows at 9.2e9 seconds.
constexpr double kArrivalSecondsMax = 1e9;

// Number of context tokens that the shortened lengths do not use. A prompt or output with the
// shortened length 0 gets 1 of these tokens.
constexpr int64_t kSpareTokens = 2;

// Returns `length` multiplied by `scale` and rounded down.
int64_t ScaledDown(int64_t length, double scale) {
  return static_cast<int64_t>(std::floor(static_cast<double>(length) * scale));
}

}  // namespace

absl::Status CheckTrace(const Trace& trace, int32_t block_size) {
  if (trace.form != TraceForm::kHashIds) return absl::OkStatus();
  for (const TraceRequest& request : trace.requests) {
    const auto num_ids = static_cast<int64_t>(request.hash_ids.size());
    const bool fits =
        request.input_length == 0 || (request.input_length > (num_ids - 1) * block_size &&
                                      request.input_length < (num_ids + 1) * block_size);
    if (!fits) {
      return InvalidArgument(
          "line {}: input_length is {}, but there are {} hash_ids of {} tokens; is --block-size "
          "right?",
          request.line, request.input_length, num_ids, block_size);
    }
  }
  return absl::OkStatus();
}

bool HasTimes(const Trace& trace) {
  return std::ranges::any_of(trace.requests, [&](const TraceRequest& request) {
    return request.timestamp != trace.requests[0].timestamp;
  });
}

absl::StatusOr<std::vector<double>> TraceArrivals(const Trace& trace, TimestampUnit unit,
                                                  double time_scale) {
  std::vector<double> arrivals;
  double latest = 0;
  for (const TraceRequest& request : trace.requests) {
    const double time = (request.timestamp - trace.requests[0].timestamp) * SecondsOf(unit);
    if (!(std::abs(time) <= kLogSecondsMax)) {
      return InvalidArgument(
          "line {}: the timestamp is {} s from the first timestamp, more than the maximum of {} s; "
          "is --time-unit right?",
          request.line, time, kLogSecondsMax);
    }
    latest = std::max(latest, time);
    arrivals.push_back(std::min(latest * time_scale, kArrivalSecondsMax));
  }
  return arrivals;
}

TracePrompts::TracePrompts(Trace trace, const TraceOptions& options, std::vector<uint32_t> tokens,
                           uint32_t vocab_size, uint64_t seed, int64_t context_tokens)
    : trace_(std::move(trace)),
      options_(options),
      tokens_(std::move(tokens)),
      seed_(seed),
      scale_(options.scale) {
  INCIPIT_CHECK(!tokens_.empty() && context_tokens >= kTraceContextMin);
  int64_t longest = 0;
  for (const TraceRequest& request : trace_.requests) {
    longest = std::max(longest, NumTokens(request) + NumOutputTokens(request));
    has_own_ids_ &= std::ranges::all_of(request.token_ids, [&](TokenId id) {
      return id >= 0 && static_cast<uint32_t>(id) < vocab_size;
    });
  }
  const int64_t longest_max = context_tokens - kSpareTokens;
  if (ScaledDown(longest, scale_) > longest_max) {
    scale_ = static_cast<double>(longest_max) / static_cast<double>(longest);
  }
}

int64_t TracePrompts::NumTokens(const TraceRequest& request) const {
  if (trace_.form == TraceForm::kTokenIds) return static_cast<int64_t>(request.token_ids.size());
  if (request.input_length > 0) return request.input_length;
  return static_cast<int64_t>(request.hash_ids.size()) * options_.block_size;
}

int64_t TracePrompts::NumOutputTokens(const TraceRequest& request) const {
  return request.output_length > 0 ? request.output_length : options_.output_tokens;
}

// Returns token number `position` of the prompt of `request`, which is request number `index`.
uint32_t TracePrompts::TokenAt(const TraceRequest& request, int32_t index, int64_t position) const {
  const auto at = static_cast<uint64_t>(position);
  if (at < request.token_ids.size()) {
    const auto id = static_cast<uint32_t>(request.token_ids[at]);
    return has_own_ids_ ? id : tokens_[id % tokens_.size()];
  }
  const auto block_size = static_cast<uint64_t>(options_.block_size);
  uint64_t bits = 0;
  if (at / block_size < request.hash_ids.size()) {
    const uint64_t block_seed = RandomBits(seed_, kBlockStream, request.hash_ids[at / block_size]);
    bits = RandomBits(block_seed, kBlockStream, at % block_size);
  } else {
    bits = RandomBits(seed_, kFirstTailStream + static_cast<uint32_t>(index), at);
  }
  return tokens_[bits % tokens_.size()];
}

BenchPrompt TracePrompts::Make(int32_t index) const {
  const TraceRequest& request = trace_.requests[static_cast<size_t>(index)];
  const int64_t num_tokens = NumTokens(request);
  BenchPrompt prompt;
  prompt.tokens.reserve(static_cast<size_t>(ScaledDown(num_tokens, scale_)) + 1);
  // Removes the tokens at the same positions from all prompts. If two prompts begin with the same
  // tokens, the shortened prompts therefore also begin with the same tokens.
  for (int64_t i = 0; i < num_tokens; ++i) {
    if (ScaledDown(i + 1, scale_) == ScaledDown(i, scale_)) continue;
    prompt.tokens.push_back(TokenAt(request, index, i));
  }
  if (prompt.tokens.empty()) prompt.tokens.push_back(TokenAt(request, index, 0));
  prompt.output_tokens =
      static_cast<int32_t>(std::max<int64_t>(ScaledDown(NumOutputTokens(request), scale_), 1));
  return prompt;
}

}  // namespace incipit
