#include "server/session/answer.h"

#include <incipit/v1/inference.pb.h>

#include "base/check.h"

namespace incipit {
namespace {

void FillToken(const TokenLogprob& from, const Tokenizer* tokenizer, v1::TokenLogprob& to) {
  to.set_token_id(static_cast<uint32_t>(from.token));
  to.set_logprob(from.logprob);
  if (tokenizer != nullptr) to.set_text(tokenizer->TokenBytes(from.token));
}

v1::CacheMissReason WireReason(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      return v1::CACHE_MISS_REASON_NONE;
    case MissReason::kUnseen:
      return v1::CACHE_MISS_REASON_UNSEEN;
    case MissReason::kEvicted:
      return v1::CACHE_MISS_REASON_EVICTED;
    case MissReason::kOtherNamespace:
      return v1::CACHE_MISS_REASON_OTHER_NAMESPACE;
  }
  return v1::CACHE_MISS_REASON_UNSPECIFIED;
}

}  // namespace

void FillMiss(const Miss& miss, v1::CacheMiss& out) {
  out.set_reason(WireReason(miss.reason));
  if (miss.reason == MissReason::kNone) return;
  out.set_first_missing_block(static_cast<uint32_t>(miss.block));
  out.set_first_differing_token(static_cast<uint32_t>(miss.differing_token));
  if (miss.reason == MissReason::kEvicted) {
    out.set_evicted_seconds_ago(ToSeconds(miss.evicted_ago));
  }
}

void FillLogprobs(const Logprobs& logprobs, int32_t row, const Tokenizer* tokenizer,
                  v1::PositionLogprobs& out) {
  INCIPIT_CHECK(row >= 0 && row < logprobs.num_rows());
  const auto i = static_cast<size_t>(row);
  FillToken(logprobs.chosen[i], tokenizer, *out.mutable_token());
  out.set_rank(static_cast<uint32_t>(logprobs.rank[i]));
  for (int32_t j = logprobs.top_begin[i]; j < logprobs.top_begin[i + 1]; ++j) {
    FillToken(logprobs.top[static_cast<size_t>(j)], tokenizer, *out.add_top());
  }
}

Choice::Choice(const AnswerOptions& options, const Tokenizer* tokenizer, bool after_prompt)
    : options_(&options), tokenizer_(tokenizer) {
  if (tokenizer == nullptr) return;
  detokenizer_.emplace(*tokenizer, !options.keep_special_tokens, after_prompt);
  if (!options.stop.empty()) stop_strings_.emplace(options.stop);
}

bool Choice::Push(const TokenEvent& event, const Logprobs& logprobs, v1::Delta& delta) {
  INCIPIT_CHECK(!ended());
  if (event.token >= 0) {
    ++num_tokens_;
    delta.add_token_ids(static_cast<uint32_t>(event.token));
    if (options_->logprobs && event.logprobs_row >= 0) {
      FillLogprobs(logprobs, event.logprobs_row, tokenizer_, *delta.add_logprobs());
    }
    const bool is_stop_token = event.finish == FinishReason::kStop;
    if (detokenizer_ && (!is_stop_token || options_->include_stop) &&
        AppendText(detokenizer_->Push(event.token), delta)) {
      return !event.finish;
    }
  }
  if (!event.finish) return false;
  // What was held back may complete a stop string too; the engine has ended the choice anyway.
  if (!detokenizer_ || !AppendText(detokenizer_->Flush(), delta)) End(event, delta);
  return false;
}

bool Choice::AppendText(const std::string& text, v1::Delta& delta) {
  if (!stop_strings_ || num_tokens_ <= options_->tokens_min) {
    delta.mutable_text()->append(stop_strings_ ? stop_strings_->Pass(text) : text);
    return false;
  }
  const StopStrings::Result result = stop_strings_->Push(text, options_->include_stop);
  delta.mutable_text()->append(result.text);
  if (!result.matched) return false;
  finish_ = FinishReason::kStop;
  delta.set_finish_reason(v1::FINISH_REASON_STOP);
  delta.set_stop_string(options_->stop[*result.matched]);
  return true;
}

void Choice::End(const TokenEvent& event, v1::Delta& delta) {
  finish_ = event.finish;
  if (stop_strings_) delta.mutable_text()->append(stop_strings_->Flush());
  if (event.finish == FinishReason::kStop) {
    delta.set_finish_reason(v1::FINISH_REASON_STOP);
    if (event.token >= 0) delta.set_stop_token_id(static_cast<uint32_t>(event.token));
  } else if (event.finish == FinishReason::kLength) {
    delta.set_finish_reason(v1::FINISH_REASON_LENGTH);
  }
}

}  // namespace incipit
