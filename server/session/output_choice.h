// One choice of a request, from token ids to what its client sees: text in whole characters, cut at
// stop strings, with log probabilities. No thread and no sink: a function of the events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/types.h"
#include "engine/engine.h"
#include "server/session/checked_request.h"
#include "server/session/output.h"
#include "text/stop_strings.h"
#include "text/tokenizer/detokenizer.h"

namespace incipit {

// Row `row` of `logprobs`. `tokenizer` may be null: then tokens have no text.
ScoredPosition ScoredPositionOf(const Logprobs& logprobs, int32_t row, const Tokenizer* tokenizer);

class OutputChoice {
 public:
  // `tokenizer` is null if the model has none: then the output is ids only. `options` and
  // `tokenizer` outlive the choice. `after_prompt` as in Detokenizer.
  OutputChoice(const OutputOptions& options, const Tokenizer* tokenizer, bool after_prompt);

  // REQUIRES: not ended. Appends to `delta` what this event adds to the output.
  // True if a stop string ended the choice, which the engine does not know yet.
  bool Push(const TokenEvent& event, const Logprobs& logprobs, OutputDelta& delta);

  bool ended() const { return finish_.has_value(); }
  std::optional<FinishReason> finish() const { return finish_; }
  int32_t num_tokens() const { return num_tokens_; }

 private:
  // True if a stop string was found.
  bool AppendText(const std::string& text, OutputDelta& delta);
  void End(const TokenEvent& event, OutputDelta& delta);

  const OutputOptions* options_;
  const Tokenizer* tokenizer_;
  std::optional<Detokenizer> detokenizer_;
  std::optional<StopStrings> stop_strings_;
  std::optional<FinishReason> finish_;
  int32_t num_tokens_ = 0;
};

}  // namespace incipit
