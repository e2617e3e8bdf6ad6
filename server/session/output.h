// The output of a request that a session sends to the client. Does not depend on the network
// protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "engine/engine.h"

namespace incipit {

// A token with its log probability.
struct ScoredToken {
  TokenId token = -1;
  float logprob = 0;  // natural logarithm of the token's probability
  std::string bytes;  // bytes of the token's text; empty if the model has no tokenizer
};

// Log probabilities at one position of the prompt or output: of the token at the position, and of
// the most probable tokens at the position.
struct ScoredPosition {
  ScoredToken token;
  int32_t rank = 0;  // rank of `token` by probability; the most probable token has rank 1
  // Most probable tokens at the position, in descending order of probability.
  std::vector<ScoredToken> top;
};

// A tool call that the output of a choice contains.
struct OutputToolCall {
  int32_t index = 0;  // number of the tool call in the output of the choice, counted from 0
  std::string id = {};
  std::string name = {};
  std::string arguments_json = {};  // text of a JSON object
};

// New output of one choice.
struct OutputDelta {
  int32_t choice = 0;
  std::string text;       // new text of the choice; contains only whole UTF-8 characters
  std::string reasoning;  // new reasoning of the choice, which is not in `text`
  // Tool calls that are complete; their text is not in `text`.
  std::vector<OutputToolCall> tool_calls;
  // New tokens of the choice (output). The end of their text may be in a later delta (piece of
  // output).
  std::vector<TokenId> tokens;
  // Log probabilities of each token in `tokens`. Empty if the client did not request log
  // probabilities.
  std::vector<ScoredPosition> logprobs;
  // kStop or kLength if this delta is the last delta of the choice (output). Absent otherwise, also
  // if the choice was cancelled or failed.
  std::optional<FinishReason> finish;
  // Stop string that ended the choice; absent if no stop string ended the choice.
  std::optional<std::string> stop_string;
  std::optional<TokenId> stop_token;
};

// The token counts and times of one request, which are reported to the client at the end.
struct OutputUsage {
  int32_t num_prompt_tokens = 0;
  int32_t num_output_tokens = 0;  // number of output tokens of all choices, including stop tokens
  int32_t num_cached_tokens = 0;  // number of prompt tokens that were found in the prefix cache
  // Number of prompt tokens, among `num_cached_tokens`, whose keys and values were copied from
  // another cache block.
  int32_t num_copied_tokens = 0;
  // The reason why not all blocks of the prompt were found in the cache. Absent if the request did
  // not use the cache.
  std::optional<Miss> miss;
  double queue_seconds = 0;  // time in seconds that the request waited in the queue
  // Time in seconds from the arrival of the request to its first output token.
  std::optional<double> first_token_seconds;
  double total_seconds = 0;  // time in seconds from the arrival of the request to its end
};

// A part of the output of a request that is sent in one message. Has at most one delta (new output)
// for each choice.
struct OutputPart {
  std::vector<OutputDelta> deltas;
  // Log probabilities of consecutive prompt positions. The log probabilities of the whole prompt
  // are sent before the first output token.
  std::vector<ScoredPosition> prompt_logprobs;
  // Token counts and times of the request; only in the last part of the output.
  std::optional<OutputUsage> usage;

  bool empty() const { return deltas.empty() && prompt_logprobs.empty() && !usage; }
  // Returns the delta of `choice` in this OutputPart. If the delta does not exist, creates an empty
  // delta.
  OutputDelta& DeltaOf(int32_t choice);
};

// Returns a new id of a tool call: 9 random letters and digits, because the chat templates of
// Mistral accept only such ids.
std::string NewToolCallId();

// Returns the estimated size of `position` in a message, in bytes.
size_t EstimatedBytes(const ScoredPosition& position);
// Returns the estimated size of a message with the output `part`, in bytes.
size_t EstimatedBytes(const OutputPart& part);

}  // namespace incipit
