// Creates prompts and arrival times from a log of requests. See docs/workloads.md.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/analysis/analyze_input.h"
#include "cli/analysis/trace.h"
#include "cli/bench/bench_prompts.h"

namespace incipit {

// Minimum context length, in tokens, of a model to which the requests of a log can be sent.
inline constexpr int64_t kTraceContextMin = 3;

struct TraceOptions {
  int32_t block_size = kHashLogBlockSize;  // number of tokens that each hash id stands for
  // Number of output tokens of the requests whose output length the log does not contain.
  int32_t output_tokens = 0;
  double scale = 1;  // factor for the lengths of prompts and outputs, at most 1
};

// Checks a log of hash ids (one id for each block of `block_size` tokens). Returns
// INVALID_ARGUMENT, with the line number, if `input_length` of a request differs from the number of
// tokens in its blocks by `block_size` or more.
absl::Status CheckTrace(const Trace& trace, int32_t block_size);

// Returns true if at least two requests of `trace` have different timestamps.
bool HasTimes(const Trace& trace);

// Returns the arrival times of the requests in seconds since the first request, multiplied by
// `time_scale`. No request arrives before the previous request of the log: a timestamp that is too
// early is replaced by the largest timestamp of the previous requests. Returns INVALID_ARGUMENT if
// a timestamp differs from the first timestamp by more than kLogSecondsMax seconds.
absl::StatusOr<std::vector<double>> TraceArrivals(const Trace& trace, TimestampUnit unit,
                                                  double time_scale);

// The prompts of a log. In a log of hash ids, equal ids become equal tokens.
class TracePrompts {
 public:
  // `tokens` are the ordinary token ids of the model, and `vocab_size` is the size of its
  // vocabulary. If the longest request does not fit `context_tokens` tokens, multiplies all lengths
  // by one factor with which the longest request fits. REQUIRES: CheckTrace() returns OK, `tokens`
  // and `trace` are not empty, and `context_tokens` is at least kTraceContextMin.
  TracePrompts(Trace trace, const TraceOptions& options, std::vector<uint32_t> tokens,
               uint32_t vocab_size, uint64_t seed, int64_t context_tokens);

  // Returns the prompt of request number `index`, with at least one token.
  BenchPrompt Make(int32_t index) const;

  // Returns the factor by which the lengths of prompts and outputs are multiplied.
  double scale() const { return scale_; }

 private:
  int64_t NumTokens(const TraceRequest& request) const;
  int64_t NumOutputTokens(const TraceRequest& request) const;
  uint32_t TokenAt(const TraceRequest& request, int32_t index, int64_t position) const;

  const Trace trace_;
  const TraceOptions options_;
  const std::vector<uint32_t> tokens_;
  const uint64_t seed_;
  double scale_ = 1;
  // True if every token id of the log is in the vocabulary of the model.
  bool has_own_ids_ = true;
};

}  // namespace incipit
