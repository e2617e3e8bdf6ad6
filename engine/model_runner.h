// A batch in, tokens out: all that the engine knows about models and devices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/types.h"

namespace incipit {

// One position of a prompt whose log probabilities were asked for: the logits of token row `row`
// against the token that follows it.
struct PromptScore {
  int32_t row = 0;
  TokenId target = -1;
  int32_t num_top = 0;
};

// One token to draw after token row `row`. Several draws may follow one row (n choices).
struct Draw {
  int32_t row = 0;
  const SamplingParams* params = nullptr;
  int32_t choice = 0;
  int64_t position = 0;                // of the token that is drawn
  std::span<const TokenCount> counts;  // sorted by token; empty without penalties
  std::span<const TokenId> banned;
};

// Flat arrays; sequence s computes tokens[token_begin[s] .. token_begin[s+1]) and its blocks are
// blocks[block_begin[s] .. block_begin[s+1]). They stay valid until Wait has returned. A token
// below 0, -1 - i, is what draw i of the step launched before this one gives, which may still be on
// its way; token 0 where that draw's row is not finite.
struct StepBatch {
  std::span<const TokenId> tokens;       // [num_tokens]
  std::span<const int32_t> positions;    // [num_tokens]
  std::span<const int32_t> token_begin;  // [num_sequences + 1]
  std::span<const int32_t> block_begin;  // [num_sequences + 1]
  std::span<const BlockId> blocks;
  std::span<const BlockCopy> copies;    // done before the first layer
  std::span<const Draw> draws;          // rows ascending
  std::span<const PromptScore> scores;  // rows ascending
};

struct StepResult {
  std::vector<TokenId> tokens;          // per draw
  std::vector<RowStatus> status;        // per draw
  std::vector<RowStatus> score_status;  // per score
  Logprobs logprobs;                    // a row for each draw that asked, in order
  Logprobs prompt_logprobs;             // a row for each score
};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  // Starts a step. At most two are in flight; a runner may compute everything here. After an error
  // the step is not in flight.
  virtual absl::Status Launch(const StepBatch& batch) = 0;

  // Waits for the oldest step. OK: `result` holds it, with a status per row. ABORTED: the step did
  // nothing and may be planned again; what was launched after it is worth nothing, but must be
  // waited for. Anything else is fatal for every request.
  virtual absl::Status Wait(StepResult& result) = 0;
};

}  // namespace incipit
