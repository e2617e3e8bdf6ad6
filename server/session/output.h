// The output of a request as a session sends it to a client, independent of the protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "engine/engine.h"

namespace incipit {

// A token with its log probability.
struct ScoredToken {
  TokenId token = -1;
  float logprob = 0;  // natural logarithm of the probability
  std::string bytes;  // bytes of the token's text; empty if the model has no tokenizer
};

// Log probabilities at one position: of the token at the position, and of the most probable
// tokens.
struct ScoredPosition {
  ScoredToken token;
  int32_t rank = 0;              // rank of `token`; 1: the most probable token
  std::vector<ScoredToken> top;  // most probable tokens, in descending order of probability
};

// New output of one choice.
struct OutputDelta {
  int32_t choice = 0;
  std::string text;             // new text, in whole UTF-8 characters
  std::vector<TokenId> tokens;  // new tokens; their text may follow in a later delta
  // One element per token of `tokens` if the client requested log probabilities; otherwise empty.
  std::vector<ScoredPosition> logprobs;
  // Reason for the end of the choice: kStop or kLength. `finish` is set in the last delta of a
  // choice. `finish` is absent if the request was cancelled, exceeded its deadline or failed.
  std::optional<FinishReason> finish;
  // The stop string or stop token that ended the choice. At most one of `stop_string` and
  // `stop_token` is set, and only if `finish` is kStop.
  std::optional<std::string> stop_string;
  std::optional<TokenId> stop_token;
};

// The numbers of tokens and the times of one request.
struct OutputUsage {
  int32_t num_prompt_tokens = 0;
  int32_t num_output_tokens = 0;  // output tokens of all choices, including stop tokens
  int32_t num_cached_tokens = 0;  // prompt tokens that were found in the cache
  int32_t num_copied_tokens = 0;  // cached tokens that were copied from another block
  std::optional<Miss> miss;  // reason for the first cache miss; absent if the cache was not read
  double queue_seconds = 0;  // time that the request waited in the queue
  std::optional<double> first_token_seconds;  // time from arrival to the first token
  double total_seconds = 0;                   // time from arrival to the end of the request
};

// The output that is delivered in one message: at most one delta per choice.
struct OutputPart {
  std::vector<OutputDelta> deltas;
  // Log probabilities of prompt positions, in order. All parts with log probabilities of the prompt
  // are sent before the first delta.
  std::vector<ScoredPosition> prompt_logprobs;
  std::optional<OutputUsage> usage;  // usage of the request; set only in the last part

  bool empty() const { return deltas.empty() && prompt_logprobs.empty() && !usage; }
  // Returns the delta of `choice`. Adds an empty delta if the part has none for `choice`.
  OutputDelta& DeltaOf(int32_t choice);
};

// Estimates how many bytes a protocol needs for `position`.
size_t EstimatedBytes(const ScoredPosition& position);
// Estimates how many bytes a protocol needs for `part`.
size_t EstimatedBytes(const OutputPart& part);

}  // namespace incipit
