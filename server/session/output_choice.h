// Converts the tokens of one choice (output of a request) to text and log probabilities for the
// client. Ends at the first stop string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"
#include "engine/engine.h"
#include "server/session/output.h"
#include "server/session/request/checked_request.h"
#include "text/chat/output_parser.h"
#include "text/stop_strings.h"
#include "text/tokenizer/detokenizer.h"

namespace incipit {

// Returns the log probabilities in row `row` of `logprobs` (one row for each token position). If
// `tokenizer` is null, the tokens have no text.
ScoredPosition ScoredPositionOf(const Logprobs& logprobs, int32_t row, const Tokenizer* tokenizer);

class OutputChoice {
 public:
  // `tokenizer` may be null; the output then has no text. If `after_prompt` is true, the text of
  // the first output token keeps its leading space. REQUIRES: `options` and `tokenizer` outlive the
  // OutputChoice.
  OutputChoice(const OutputOptions& options, const Tokenizer* tokenizer, bool after_prompt);

  // Adds the output token in `event` to `delta`. Returns true if a stop string has ended the choice
  // and the caller must cancel the choice in the engine. REQUIRES: `ended()` is false.
  bool Push(const TokenEvent& event, const Logprobs& logprobs, OutputDelta& delta);

  bool ended() const { return finish_.has_value(); }
  std::optional<FinishReason> finish() const { return finish_; }
  int32_t num_tokens() const { return num_tokens_; }

 private:
  // Adds `text` to `delta`, split into ordinary text, reasoning and tool calls.
  void AddText(std::string_view text, OutputDelta& delta);
  void Add(ParsedText parsed, OutputDelta& delta);
  // Adds `text` to `delta`, up to the first stop string. Returns true if a stop string has ended
  // the choice (output).
  bool AppendText(const std::string& text, OutputDelta& delta);
  void End(const TokenEvent& event, OutputDelta& delta);

  const OutputOptions* options_;
  const Tokenizer* tokenizer_;
  std::optional<Detokenizer> detokenizer_;
  std::optional<StopStrings> stop_strings_;
  // Absent: the output is not split into tool calls and reasoning.
  std::optional<OutputParser> parser_;
  int32_t num_tool_calls_ = 0;
  std::optional<FinishReason> finish_;
  int32_t num_tokens_ = 0;
};

}  // namespace incipit
