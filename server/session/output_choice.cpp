#include "server/session/output_choice.h"

#include "base/check.h"

namespace incipit {
namespace {

ScoredToken ScoredTokenOf(const TokenLogprob& from, const Tokenizer* tokenizer) {
  return {.token = from.token,
          .logprob = from.logprob,
          .bytes = tokenizer == nullptr ? std::string() : tokenizer->TokenBytes(from.token)};
}

}  // namespace

ScoredPosition ScoredPositionOf(const Logprobs& logprobs, int32_t row, const Tokenizer* tokenizer) {
  INCIPIT_CHECK(row >= 0 && row < logprobs.num_rows());
  const auto i = static_cast<size_t>(row);
  ScoredPosition out;
  out.token = ScoredTokenOf(logprobs.chosen[i], tokenizer);
  out.rank = logprobs.rank[i];
  for (int32_t j = logprobs.top_begin[i]; j < logprobs.top_begin[i + 1]; ++j) {
    out.top.push_back(ScoredTokenOf(logprobs.top[static_cast<size_t>(j)], tokenizer));
  }
  return out;
}

OutputChoice::OutputChoice(const OutputOptions& options, const Tokenizer* tokenizer,
                           bool after_prompt)
    : options_(&options), tokenizer_(tokenizer) {
  if (tokenizer == nullptr) return;
  detokenizer_.emplace(*tokenizer, !options.keep_special_tokens, after_prompt);
  if (options.stop != nullptr) stop_strings_.emplace(options.stop);
}

bool OutputChoice::Push(const TokenEvent& event, const Logprobs& logprobs, OutputDelta& delta) {
  INCIPIT_CHECK(!ended());
  if (event.token >= 0) {
    ++num_tokens_;
    delta.tokens.push_back(event.token);
    if (options_->logprobs && event.logprobs_row >= 0) {
      delta.logprobs.push_back(ScoredPositionOf(logprobs, event.logprobs_row, tokenizer_));
    }
    const bool is_stop_token = event.finish == FinishReason::kStop;
    if (detokenizer_ && (!is_stop_token || options_->include_stop) &&
        AppendText(detokenizer_->Push(event.token), delta)) {
      return !event.finish;
    }
  }
  if (!event.finish) return false;
  // Flush returns the last text of the detokenizer. The engine has already ended the choice, so the
  // caller need not cancel the choice even if this text contains a stop string.
  if (!detokenizer_ || !AppendText(detokenizer_->Flush(), delta)) End(event, delta);
  return false;
}

bool OutputChoice::AppendText(const std::string& text, OutputDelta& delta) {
  if (!stop_strings_ || num_tokens_ <= options_->tokens_min) {
    delta.text += stop_strings_ ? stop_strings_->Pass(text) : text;
    return false;
  }
  const StopStrings::Result result = stop_strings_->Push(text, options_->include_stop);
  delta.text += result.text;
  if (!result.matched) return false;
  finish_ = delta.finish = FinishReason::kStop;
  delta.stop_string = options_->stop->strings()[*result.matched];
  return true;
}

void OutputChoice::End(const TokenEvent& event, OutputDelta& delta) {
  finish_ = event.finish;
  if (stop_strings_) delta.text += stop_strings_->Flush();
  if (event.finish == FinishReason::kStop) {
    delta.finish = FinishReason::kStop;
    if (event.token >= 0) delta.stop_token = event.token;
  } else if (event.finish == FinishReason::kLength) {
    delta.finish = FinishReason::kLength;
  }
}

}  // namespace incipit
