// Creates the prompts and arrival times of a log of requests. See docs/workloads.md.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/analysis/analyze_input.h"
#include "cli/analysis/trace.h"
#include "cli/bench/bench_prompts.h"

namespace incipit {

// Minimum number of tokens in the context of a model that can serve the requests of a log.
inline constexpr int64_t kTraceContextMin = 3;

struct TraceOptions {
  int32_t block_size = kHashLogBlockSize;  // number of tokens that each hash id stands for
  // Number of output tokens of the requests whose output length the log does not contain.
  int32_t output_tokens = 0;
  double scale = 1;  // factor for the lengths of prompts and outputs, at most 1
};

// Returns INVALID_ARGUMENT, with the line number, if the input length of a request of hash ids does
// not fit the number of hash ids.
absl::Status CheckTrace(const Trace& trace, int32_t block_size);

// Returns true if the requests of `trace` have different timestamps.
bool HasTimes(const Trace& trace);

// Returns the arrival times of the requests in seconds since the first request, multiplied by
// `time_scale`. A timestamp that is earlier than a previous timestamp is replaced by the latest
// timestamp before it. Returns INVALID_ARGUMENT if a timestamp is more than kLogSecondsMax from the
// first timestamp.
absl::StatusOr<std::vector<double>> TraceArrivals(const Trace& trace, TimestampUnit unit,
                                                  double time_scale);

// The prompts of a log. In a log of hash ids, equal ids become equal tokens.
class TracePrompts {
 public:
  // `tokens` are the ordinary token ids of the model, and `vocab_size` is the size of its
  // vocabulary. If the longest request has more than `context_tokens` tokens, multiplies all
  // lengths by one factor, so that the request fits. REQUIRES: CheckTrace() returns OK, `tokens`
  // and `trace` are not empty, and `context_tokens` is at
  // least kTraceContextMin.
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
