// What is asked of the engine, and what steps give back, in the terms of whoever asked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "kvcache/keys/block_hash.h"
#include "kvcache/kv_cache_manager.h"

namespace incipit {

inline constexpr int32_t kChoicesMax = 16;

// What the engine is asked for, in token ids and numbers. Preparation fills a Request; after Submit
// it is immutable and shared: whatever follows reads it and copies nothing. The caller chooses a
// fresh id.
struct Request {
  RequestId id{};
  std::vector<TokenId> prompt{};
  int32_t output_tokens_max = 0;       // of each choice; 1 or more
  int32_t output_tokens_min = 0;       // stop tokens are not drawn before
  int32_t num_choices = 1;             // 1 to kChoicesMax
  std::vector<TokenId> stop_tokens{};  // those of the model and those of the request
  SamplingParams sampling{};
  int32_t prompt_logprobs = -1;      // -1: none; 0: the prompt's tokens; k: and the k likeliest
  CacheNamespace cache_namespace{};  // tenant and salt: the start of the hash chain
  uint64_t tenant = 0;               // whose share of retained blocks its own count against
  Retention retention{};
  bool read_cache = true;
  int32_t priority = 0;  // higher goes first
  Time arrival{};
  Time deadline = kNoDeadline;              // the request ends at this time
  Time first_token_deadline = kNoDeadline;  // the first token is useless after this time

  // Returns the time before which the first token must be computed.
  Time first_token_by() const { return std::min(deadline, first_token_deadline); }
  int32_t num_prompt() const { return static_cast<int32_t>(prompt.size()); }
  // Prompt and output. REQUIRES: the sum fits, as it does in every request that fits the cache.
  int32_t length_max() const { return num_prompt() + output_tokens_max; }
};

// A request got its first slots: what it waited and what it did not have to compute.
struct AdmissionEvent {
  RequestId request{};
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;  // found in the cache
  int32_t num_copied_tokens = 0;  // of them, in a block that was copied
  Miss miss{};                    // why no more were found
  Duration queue_time{};
};

// What one step gave one choice of one request. The last event of a choice has `finish`.
struct TokenEvent {
  RequestId request{};
  int32_t choice = 0;
  TokenId token = -1;         // -1: none (cancelled, deadline, error)
  int32_t logprobs_row = -1;  // of the step's logprobs
  std::optional<FinishReason> finish{};
};

// Log probabilities of prompt tokens position .. position + num_rows, in rows first_row on.
struct PromptLogprobsEvent {
  RequestId request{};
  int32_t position = 0;  // of the first token that is scored; 1 or more
  int32_t first_row = 0, num_rows = 0;
};

}  // namespace incipit
