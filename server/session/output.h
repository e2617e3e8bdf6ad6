// What a session sends to its client, in no protocol's terms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "engine/engine.h"

namespace incipit {

struct ScoredToken {
  TokenId token = -1;
  float logprob = 0;  // natural
  std::string bytes;  // the token's own; empty if the model has no tokenizer
};

// Log probabilities at one position: of the token that stands there, and of the likeliest tokens.
struct ScoredPosition {
  ScoredToken token;
  int32_t rank = 0;              // of `token`; 1: the likeliest
  std::vector<ScoredToken> top;  // best first
};

// What is new of one choice.
struct OutputDelta {
  int32_t choice = 0;
  std::string text;                      // whole UTF-8 characters
  std::vector<TokenId> tokens;           // may run ahead of the text
  std::vector<ScoredPosition> logprobs;  // one a token, if asked for
  // Set in the last delta of a choice that ended by itself: kStop or kLength.
  std::optional<FinishReason> finish;
  // At most one of the two, if `finish` is kStop.
  std::optional<std::string> stop_string;
  std::optional<TokenId> stop_token;
};

struct OutputUsage {
  int32_t num_prompt_tokens = 0;
  int32_t num_output_tokens = 0;  // of all choices, stop tokens included
  int32_t num_cached_tokens = 0;  // of the prompt, found in the cache
  int32_t num_copied_tokens = 0;  // of them, in a block that was copied
  std::optional<Miss> miss;       // absent if the request did not read the cache
  double queue_seconds = 0;
  std::optional<double> first_token_seconds;  // from arrival
  double total_seconds = 0;                   // from arrival
};

// What is delivered at a time: at most one delta of each choice.
struct OutputPart {
  std::vector<OutputDelta> deltas;
  std::vector<ScoredPosition> prompt_logprobs;  // of positions in order, before any delta
  std::optional<OutputUsage> usage;             // in the last part

  bool empty() const { return deltas.empty() && prompt_logprobs.empty() && !usage; }
  // The delta of `choice`, which it adds if there is none.
  OutputDelta& DeltaOf(int32_t choice);
};

// Estimates how many bytes a protocol needs for `position`.
size_t EstimatedBytes(const ScoredPosition& position);
// Estimates how many bytes a protocol needs for `part`.
size_t EstimatedBytes(const OutputPart& part);

}  // namespace incipit
