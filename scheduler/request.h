// Request: the input of the scheduler. The other structs are events that the scheduler reports
// about a request.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "kvcache/keys/block_hash.h"
#include "kvcache/kv_cache_manager.h"
#include "scheduler/wait_clock.h"

namespace incipit {

// Maximum number of choices (outputs) of one request.
inline constexpr int32_t kChoicesMax = 16;

// Returns true if a stop token or a stop string may end an output at the token after its first
// `num_output` tokens. `output_tokens_min` is the minimum number of output tokens.
constexpr bool MayStop(int32_t num_output, int32_t output_tokens_min) {
  return num_output >= output_tokens_min;
}

// A request for output, in token ids and numbers. No thread changes a Request after Engine::Submit,
// so all threads read the same object without a lock. REQUIRES: no other unended request has the
// same `id`.
struct Request {
  RequestId id{};
  std::vector<TokenId> prompt{};
  // Maximum number of output tokens of each choice, at least 1.
  int32_t output_tokens_max = 0;
  // Minimum number of output tokens of each choice. No stop token is sampled earlier.
  int32_t output_tokens_min = 0;
  int32_t num_choices = 1;             // number of outputs, from 1 to kChoicesMax
  std::vector<TokenId> stop_tokens{};  // stop tokens of the model and of the request
  SamplingParams sampling{};
  // Log probabilities to compute at each position of the prompt. -1: none. 0: only of the prompt
  // token. k > 0: also of the k most probable tokens.
  int32_t prompt_logprobs = -1;
  // Requests with different namespaces share no cached blocks.
  CacheNamespace cache_namespace{};
  // Id of the tenant (TenantDigest). The tenant is charged for the tokens of the request. Blocks
  // that the cache keeps because of `retention` count for this tenant.
  uint64_t tenant = 0;
  Retention retention{};
  bool read_cache = true;  // false: the request uses no block that another request computed
  int32_t priority = 0;    // requests with a higher priority are admitted earlier
  Time arrival{};
  // The request ends at this time, even if its output is incomplete.
  Time deadline = kNoDeadline;
  Time first_token_deadline = kNoDeadline;  // the first token is useless after this time

  // Returns the time before which the first token must be computed.
  Time first_token_by() const { return std::min(deadline, first_token_deadline); }
  int32_t num_prompt() const { return static_cast<int32_t>(prompt.size()); }
  // Returns the maximum number of tokens of the prompt and one output together. REQUIRES: the
  // result is at most the largest int32_t.
  int32_t length_max() const { return num_prompt() + output_tokens_max; }
};

// Reports that the first step of a request is committed. Each request has one such event, however
// many choices it has.
struct AdmissionEvent {
  RequestId request{};
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;  // prompt tokens that were found in the cache or in a tier
  int32_t num_loaded_tokens = 0;  // tokens, among num_cached_tokens, that were loaded from a tier
  int32_t num_copied_tokens = 0;  // tokens, among num_cached_tokens, in a block that was copied
  Miss miss{};                    // why the lookup found no more tokens
  Duration queue_time{};          // from the arrival to the plan of the first step
  WaitTimes waits{};              // parts of queue_time
  size_t reported_tenant = 0;     // index of the tenant in PerTenant
};

// Reports a sampled token of a choice, or the end of the choice, or both. The last event of a
// choice has `finish`.
struct TokenEvent {
  RequestId request{};
  int32_t choice = 0;
  TokenId token = -1;         // -1: the choice ends without a token (cancelled, deadline, error)
  int32_t logprobs_row = -1;  // row of the log probabilities of the step; -1: none
  std::optional<FinishReason> finish{};
};

// Reports the log probabilities of the prompt tokens [position, position + num_rows). The step
// stores these log probabilities in the rows [first_row, first_row + num_rows).
struct PromptLogprobsEvent {
  RequestId request{};
  // Position in the prompt of the first reported token. At least 1, because the token at position 0
  // has no log probability.
  int32_t position = 0;
  int32_t first_row = 0, num_rows = 0;
};

}  // namespace incipit
