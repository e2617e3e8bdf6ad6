// Writes output in the form of OpenAI's API: one JSON object, or events of a stream.
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

// The values that are equal in all parts of one response.
struct OpenAiIdentity {
  std::string id;       // such as "chatcmpl-0123456789abcdef"
  std::string model;    // name of the served model
  int64_t created = 0;  // seconds since 1970
};

// A prompt, as far as the response repeats it.
struct OpenAiPrompt {
  std::string text;             // only with OpenAiFormat::echo
  std::vector<TokenId> tokens;  // only with echo or return_token_ids
};

// The sum of the token counts of all prompts of a response.
struct OpenAiUsage {
  int64_t num_prompt_tokens = 0, num_output_tokens = 0, num_cached_tokens = 0;

  void Add(const OutputUsage& usage);
};

// Builds the JSON text of a response. Choices are numbered over all prompts: choice c of prompt p
// has the index p * num_choices + c. Not thread-safe.
class OpenAiOutput {
 public:
  // `tokenizer` is null if the model has none. REQUIRES: `tokenizer` outlives the object.
  OpenAiOutput(OpenAiFormat format, OpenAiIdentity identity, size_t num_prompts,
               const Tokenizer* tokenizer);

  const OpenAiFormat& format() const { return format_; }
  // Sets the prompt that the response repeats. REQUIRES: no output of the prompt was added.
  void SetPrompt(size_t prompt, OpenAiPrompt value) { prompts_[prompt] = std::move(value); }
  // Adds the output `part` of prompt number `prompt`. Returns the events of a stream; returns an
  // empty text if `format().streams` is false, or if the part has nothing that a client can use.
  std::string Add(size_t prompt, OutputPart part);
  // Returns the end of a stream: the event with the token counts, and the event [DONE].
  std::string StreamEnd() const;
  // Returns the response that is not a stream, after all output was added.
  std::string Whole() const;
  // Returns the estimated size in bytes of the output that is kept for Whole().
  size_t num_kept_bytes() const { return num_kept_bytes_; }

 private:
  struct Choice {
    bool begun = false;  // true after the first event of the choice
    std::string text, reasoning;
    std::vector<OutputToolCall> tool_calls;
    std::vector<TokenId> tokens;
    std::vector<ScoredPosition> logprobs;
    std::optional<FinishReason> finish;
    bool has_tool_calls = false;
    std::string stop_reason = "null";  // JSON: the stop string, the stop token or null
    // Number of characters of the text before the next token, for text_offset.
    int64_t num_characters = 0;
  };

  // Appends the part of `delta` that the next event or the whole response shows.
  void AppendChoice(size_t index, const OutputDelta& delta, Choice& choice, std::string& out) const;
  // Appends the member `delta` or `message` of a chat.
  void AppendChatMessage(const OutputDelta& delta, std::string& out) const;
  void AppendToolCalls(const OutputDelta& delta, std::string& out) const;
  void AppendLogprobs(const std::vector<ScoredPosition>& positions, Choice& choice,
                      std::string& out) const;
  void AppendCompletionLogprobs(const std::vector<ScoredPosition>& positions, Choice& choice,
                                std::string& out) const;
  void AppendEvent(std::string_view choices, std::string_view usage, std::string& out) const;
  // Begins choice `index`: adds the role or the echoed prompt to the stream.
  void BeginChoice(size_t prompt, size_t index, std::string& out);
  // Returns a delta with the prompt, which an echo shows before the output.
  OutputDelta EchoOf(size_t prompt) const;
  std::string UsageJson() const;
  static std::string_view FinishOf(const std::optional<FinishReason>& finish, bool has_tool_calls);

  const OpenAiFormat format_;
  const OpenAiIdentity identity_;
  std::vector<OpenAiPrompt> prompts_;
  const Tokenizer* const tokenizer_;
  std::vector<std::vector<ScoredPosition>> prompt_logprobs_;  // by prompt
  std::vector<Choice> choices_;
  OpenAiUsage usage_;
  size_t num_kept_bytes_ = 0;
};

}  // namespace incipit
