// Types for the output of a request. The types do not depend on the network protocol.
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

// Log probabilities at one position of the prompt or output: of the token at this position, and of
// the most probable tokens.
struct ScoredPosition {
  ScoredToken token;
  int32_t rank = 0;  // rank of `token` by probability; the most probable token has rank 1
  // Most probable tokens at the position, in descending order of probability.
  std::vector<ScoredToken> top;
};

// A complete tool call in the output of one choice.
struct OutputToolCall {
  int32_t index = 0;  // index among the tool calls of the choice (output), from 0
  std::string id = {};
  std::string name = {};
  std::string arguments_json = {};  // JSON object with the arguments of the tool call
};

// New output of one choice.
struct OutputDelta {
  int32_t choice = 0;
  std::string text;       // new text of the choice (output), in whole UTF-8 characters
  std::string reasoning;  // new text of the choice's reasoning; not part of `text`
  // New complete tool calls of the choice (output). Their text is not part of `text`.
  std::vector<OutputToolCall> tool_calls;
  // New tokens of the choice (output). A later OutputDelta may contain the end of the text of these
  // tokens.
  std::vector<TokenId> tokens;
  // Element i: log probabilities at the position of `tokens[i]`. Empty unless the client requested
  // log probabilities.
  std::vector<ScoredPosition> logprobs;
  // The reason why the choice (output) ended. Present only in the last OutputDelta of the choice;
  // absent if the choice was cancelled or failed.
  std::optional<FinishReason> finish;
  // Stop string that ended the choice (output). Absent if another reason ended the choice.
  std::optional<std::string> stop_string;
  std::optional<TokenId> stop_token;
};

// Token counts of the prompt, which are known when the request starts.
struct PromptUsage {
  int32_t num_tokens = 0;
  int32_t num_cached_tokens = 0;  // number of tokens that were found in the prefix cache
};

// Token counts and times of one request, which the client receives at the end of the output.
struct OutputUsage {
  int32_t num_prompt_tokens = 0;
  // Number of output tokens of all choices (outputs), including stop tokens.
  int32_t num_output_tokens = 0;
  int32_t num_cached_tokens = 0;  // number of prompt tokens that were found in the prefix cache
  // Number of the tokens in `num_cached_tokens` whose keys and values were copied from another
  // cache block.
  int32_t num_copied_tokens = 0;
  // Tokens, among num_cached_tokens, whose keys and values were read from the disk cache.
  int32_t num_loaded_tokens = 0;
  // The reason why the prefix cache did not contain the whole prompt. Absent if the request did not
  // use the prefix cache.
  std::optional<Miss> miss;
  double queue_seconds = 0;  // time in seconds that the request waited in the queue of the engine
  // Parts of `queue_seconds`. Absent if no step (batch) computed tokens of the request.
  std::optional<WaitTimes> waits;
  // Time in seconds from the arrival of the request to its first output token.
  std::optional<double> first_token_seconds;
  double total_seconds = 0;  // time in seconds from the arrival of the request to its end
};

// New output of a request, which the server sends in one message. `deltas` has at most one
// OutputDelta for each choice (output).
struct OutputPart {
  std::vector<OutputDelta> deltas;
  // Log probabilities at consecutive positions of the prompt. The server sends all of them before
  // the first output token.
  std::vector<ScoredPosition> prompt_logprobs;
  // Token counts of the prompt. Present only in the first part of the output.
  std::optional<PromptUsage> prompt;
  // Token counts and times of the request. Present only in the last part of the output.
  std::optional<OutputUsage> usage;

  bool empty() const { return deltas.empty() && prompt_logprobs.empty() && !usage; }
  // Returns the OutputDelta of choice number `choice`. Adds an empty OutputDelta if there is none.
  OutputDelta& DeltaOf(int32_t choice);
};

// Appends `delta` to `to`. REQUIRES: `delta` is the output that follows `to` in the same choice.
void Append(OutputDelta delta, OutputDelta& to);

// Returns a new id of a tool call: 9 random letters and digits. The chat templates of Mistral
// accept no other ids.
std::string NewToolCallId();

// Returns the estimated size of `position` in a message to the client, in bytes.
size_t EstimatedBytes(const ScoredPosition& position);
// Returns the estimated size of the contents of `delta` in a message to the client, in bytes.
size_t ContentBytes(const OutputDelta& delta);
// Returns the estimated size of a message to the client with the output `part`, in bytes.
size_t EstimatedBytes(const OutputPart& part);

}  // namespace incipit
