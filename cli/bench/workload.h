// The workloads of `incipit bench --workload`. For most workloads, other projects have published
// the hit ratio of a prefix cache. See docs/workloads.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

// A range of lengths in tokens, from `min` to `max` inclusive.
struct LengthRange {
  int32_t min = 0, max = 0;
};

// The shape of the requests of a workload. A conversation is a sequence of `num_turns` requests
// (turns). The prompt of the first turn consists of a shared part, a document and a message. Each
// later prompt begins with the previous prompt. If `edit` is not 0, the later prompt has new tokens
// in place of the last tokens of the previous prompt.
struct Workload {
  std::string_view name;
  std::string_view summary;              // description for the help, such as "unique prompts"
  std::string_view published_hit_ratio;  // such as "92-97 %"; empty: none is published
  int32_t shared_tokens = 0;             // number of leading tokens that are equal in all prompts
  LengthRange document{};                // length of the document
  // Number of different documents of all conversations together. 0: each conversation has its own
  // document.
  int32_t num_topics = 0;
  LengthRange message{};  // number of new tokens that each turn appends
  // Number of tokens at the end of the previous prompt that each later turn replaces by new tokens.
  LengthRange edit{};
  int32_t output_tokens = 0;  // number of output tokens of each request
  int32_t num_turns = 1;      // number of requests in a conversation
  // True: the prompt of a later turn consists of the previous prompt, the output of the previous
  // turn, and a new message.
  bool keeps_output = false;
};

std::span<const Workload> Workloads();

// Returns the workload `name`. Returns INVALID_ARGUMENT with a list of all names if there is no
// such workload.
absl::StatusOr<Workload> FindWorkload(std::string_view name);

// Returns the maximum number of tokens that the prompt and the output of a request have together.
int64_t LongestTokens(const Workload& workload);

// Returns `workload` with all lengths multiplied by `factor` and rounded down. A length that is not
// 0 stays at least 1.
Workload Scaled(Workload workload, double factor);

// A workload whose requests fit the context of a model.
struct FittedWorkload {
  Workload workload;
  double scale = 1;  // factor by which the lengths of the workload were multiplied
};

// Multiplies the lengths of `workload` by `scale`. If the longest request would then exceed
// `context_tokens`, multiplies by a smaller factor instead of `scale`, so that this request fits.
// Returns INVALID_ARGUMENT if the request cannot fit.
absl::StatusOr<FittedWorkload> FitWorkload(const Workload& workload, double scale,
                                           int64_t context_tokens);

}  // namespace incipit
