// One choice of an answer, from token ids to what the client sees: text in whole characters, cut at
// stop strings, with log probabilities. No thread and no stream: a function of the events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/types.h"
#include "engine/engine.h"
#include "server/session/checked_request.h"
#include "text/stop_strings.h"
#include "text/tokenizer/detokenizer.h"

namespace incipit::v1 {
class CacheMiss;
class Delta;
class PositionLogprobs;
}  // namespace incipit::v1

namespace incipit {

// What a model's rows of log probabilities say about one position. `tokenizer` may be null: then
// tokens have no text.
void FillLogprobs(const Logprobs& logprobs, int32_t row, const Tokenizer* tokenizer,
                  v1::PositionLogprobs& out);

// Why no more of a prompt was found in the cache.
void FillMiss(const Miss& miss, v1::CacheMiss& out);

class Choice {
 public:
  // `tokenizer` is null where the model has none: then the answer is ids only. `options` and
  // `tokenizer` outlive it. `after_prompt` as in Detokenizer.
  Choice(const AnswerOptions& options, const Tokenizer* tokenizer, bool after_prompt);

  // REQUIRES: not ended. Appends to `delta` what this event gives the client.
  // True if a stop string ended the choice, which the engine does not know yet.
  bool Push(const TokenEvent& event, const Logprobs& logprobs, v1::Delta& delta);

  bool ended() const { return finish_.has_value(); }
  std::optional<FinishReason> finish() const { return finish_; }
  int32_t num_tokens() const { return num_tokens_; }

 private:
  // True if a stop string was found.
  bool AppendText(const std::string& text, v1::Delta& delta);
  void End(const TokenEvent& event, v1::Delta& delta);

  const AnswerOptions* options_;
  const Tokenizer* tokenizer_;
  std::optional<Detokenizer> detokenizer_;
  std::optional<StopStrings> stop_strings_;
  std::optional<FinishReason> finish_;
  int32_t num_tokens_ = 0;
};

}  // namespace incipit
