// Converts the output of the model to the JSON text of an OpenAI API response: one JSON object, or
// the events of a stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"
#include "server/http/openai_request.h"
#include "server/session/output.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

// Values that identify a response. All events of a streamed response contain the same values.
struct OpenAiIdentity {
  std::string id;       // id of the response, such as "chatcmpl-0123456789abcdef"
  std::string model;    // name of the served model
  int64_t created = 0;  // time of the request, in seconds since 1970
};

// A prompt that the response must contain, as text or as token ids.
struct OpenAiPrompt {
  // Text of the prompt. Empty unless the text of the response must begin with the prompt (field
  // "echo").
  std::string text;
  // Token ids of the prompt. Empty if the response does not contain the prompt.
  std::vector<TokenId> tokens;
};

// Token counts of a response. Each count is the sum over all prompts of the request.
struct OpenAiUsage {
  int64_t num_prompt_tokens = 0, num_output_tokens = 0, num_cached_tokens = 0;

  void Add(const OutputUsage& usage);
};

// Builds the JSON text of a response. Choice (output) number c of prompt number p has the index p *
// num_choices + c in the response; c and p begin at 0. Not thread-safe.
class OpenAiOutput {
 public:
  // Creates the output of a request with `num_prompts` prompts. `tokenizer` is null if the model
  // has no tokenizer. REQUIRES: `tokenizer` outlives the OpenAiOutput.
  OpenAiOutput(OpenAiFormat format, OpenAiIdentity identity, size_t num_prompts,
               const Tokenizer* tokenizer);

  const OpenAiFormat& format() const { return format_; }
  // Stores prompt number `prompt`, because the response must contain the prompt. REQUIRES: Add was
  // not called for this prompt.
  void SetPrompt(size_t prompt, OpenAiPrompt value) { prompts_[prompt] = std::move(value); }
  // Adds `part`, new output of prompt number `prompt`. If the response is a stream, returns the
  // events for the client, or an empty text if `part` contains nothing for the client. Otherwise,
  // returns an empty text.
  std::string Add(size_t prompt, OutputPart part);
  // Returns the last events of a stream: the token counts, if the client has requested the counts,
  // and [DONE].
  std::string StreamEnd() const;
  // Returns the complete JSON response. REQUIRES: `format().streams` is false, and all output was
  // added.
  std::string Whole() const;
  // Returns the estimated size, in bytes, of the output that this object keeps in memory.
  size_t num_kept_bytes() const { return num_kept_bytes_; }

 private:
  // Counts how much of a choice (output) the response already contains.
  struct Progress {
    bool begun = false;           // true after BeginChoice was called for the choice
    bool has_tool_calls = false;  // true after a tool call of the choice was added
    // Number of characters in the text of the choice before the next token.
    int64_t num_characters = 0;
    // Number of bytes of the prompt's text whose tokens are already in the response. Used only if
    // the response repeats the prompt (field "echo").
    size_t num_prompt_bytes = 0;
  };

  // Appends a JSON object to `out`. The object contains `delta`, the new output of choice number
  // `index`.
  void AppendChoice(size_t index, const OutputDelta& delta, Progress& progress,
                    std::string& out) const;
  // Appends the field with the chat message `delta` to `out`. The field is "delta" in a stream,
  // otherwise "message".
  void AppendChatMessage(const OutputDelta& delta, std::string& out) const;
  void AppendToolCalls(const OutputDelta& delta, std::string& out) const;
  void AppendLogprobs(size_t index, const std::vector<ScoredPosition>& positions,
                      Progress& progress, std::string& out) const;
  void AppendCompletionLogprobs(size_t index, const std::vector<ScoredPosition>& positions,
                                Progress& progress, std::string& out) const;
  // Returns the number of characters that `token`, the next token of choice number `index`, adds to
  // the text of the choice.
  int64_t CharactersOf(size_t index, const ScoredToken& token, Progress& progress) const;
  void AppendEvent(std::string_view choices, std::string_view usage, std::string& out) const;
  // Begins choice (output) number `index`. Called before the first output of the choice is added.
  // If a streamed response needs a first event, with the role of a chat message or with the prompt,
  // appends this event to `out`.
  void BeginChoice(size_t prompt, size_t index, std::string& out);
  // Converts prompt number `prompt` to an OutputDelta (piece of output), because a response with
  // the option echo begins with the prompt.
  OutputDelta EchoOf(size_t prompt) const;
  std::string UsageJson() const;
  static std::string_view FinishOf(const std::optional<FinishReason>& finish, bool has_tool_calls);

  const OpenAiFormat format_;
  const OpenAiIdentity identity_;
  std::vector<OpenAiPrompt> prompts_;
  const Tokenizer* const tokenizer_;
  // Element i: log probabilities of the tokens of prompt number i.
  std::vector<std::vector<ScoredPosition>> prompt_logprobs_;
  // Element i: how much of choice (output) number i the response already contains.
  std::vector<Progress> progress_;
  // Element i: complete output of choice number i so far. Empty if the response is a stream.
  std::vector<OutputDelta> outputs_;
  OpenAiUsage usage_;
  size_t num_kept_bytes_ = 0;
};

}  // namespace incipit
