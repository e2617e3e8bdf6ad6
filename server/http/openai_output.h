// Converts output to the JSON of OpenAI's API: one JSON object, or the events of a stream.
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

// Values that are the same in all events of a stream.
struct OpenAiIdentity {
  std::string id;       // id of the response, such as "chatcmpl-0123456789abcdef"
  std::string model;    // name of the served model
  int64_t created = 0;  // time of the request, in seconds since 1970
};

// The prompt, for a response that contains the prompt.
struct OpenAiPrompt {
  std::string text;  // text of the prompt; empty if OpenAiFormat::echo is false
  // Token ids of the prompt; empty if the response does not contain the prompt.
  std::vector<TokenId> tokens;
};

// Token counts of a response, each the sum over all prompts.
struct OpenAiUsage {
  int64_t num_prompt_tokens = 0, num_output_tokens = 0, num_cached_tokens = 0;

  void Add(const OutputUsage& usage);
};

// Builds the JSON text of a response. Choice c (from 0) of prompt p (from 0) has the index p *
// num_choices + c in the response. Not thread-safe.
class OpenAiOutput {
 public:
  // `tokenizer` may be null. REQUIRES: `tokenizer` outlives the OpenAiOutput.
  OpenAiOutput(OpenAiFormat format, OpenAiIdentity identity, size_t num_prompts,
               const Tokenizer* tokenizer);

  const OpenAiFormat& format() const { return format_; }
  // Stores prompt number `prompt`, which the response will contain. REQUIRES: Add was not called
  // for this prompt.
  void SetPrompt(size_t prompt, OpenAiPrompt value) { prompts_[prompt] = std::move(value); }
  // Adds `part`, output of prompt number `prompt`. If `format().streams` is true, returns the
  // events for the client, or an empty text if `part` contains nothing for the client. Otherwise,
  // returns an empty text.
  std::string Add(size_t prompt, OutputPart part);
  // Returns the last events of a stream: the token counts, if the client wants them, and [DONE].
  std::string StreamEnd() const;
  // Returns the complete JSON response. REQUIRES: `format().streams` is false, and all output was
  // added.
  std::string Whole() const;
  // Returns the estimated size, in bytes, of the stored output. Whole() will return this output.
  size_t num_kept_bytes() const { return num_kept_bytes_; }

 private:
  // The part of a choice that the response already contains.
  struct Progress {
    bool begun = false;           // true after BeginChoice was called
    bool has_tool_calls = false;  // true after a tool call was added
    int64_t num_characters = 0;   // number of characters of the text before the next token
    // Number of bytes of the echoed prompt before the next token.
    size_t num_prompt_bytes = 0;
  };

  // Appends the JSON object of choice number `index` with the new output `delta` to `out`.
  void AppendChoice(size_t index, const OutputDelta& delta, Progress& progress,
                    std::string& out) const;
  // Appends the field "delta" (in a stream) or "message" of a chat response to `out`.
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
  // Begins choice number `index`, before its first output. In a stream, appends the first event,
  // with the role of a chat or the prompt, to `out`.
  void BeginChoice(size_t prompt, size_t index, std::string& out);
  // Returns prompt number `prompt` as output, because a response with echo begins with the prompt.
  OutputDelta EchoOf(size_t prompt) const;
  std::string UsageJson() const;
  static std::string_view FinishOf(const std::optional<FinishReason>& finish, bool has_tool_calls);

  const OpenAiFormat format_;
  const OpenAiIdentity identity_;
  std::vector<OpenAiPrompt> prompts_;
  const Tokenizer* const tokenizer_;
  // Element i: log probabilities of prompt number i.
  std::vector<std::vector<ScoredPosition>> prompt_logprobs_;
  // Element i: progress and stored output of choice number i. In a stream, no output is stored.
  std::vector<Progress> progress_;
  std::vector<OutputDelta> outputs_;
  OpenAiUsage usage_;
  size_t num_kept_bytes_ = 0;
};

}  // namespace incipit
