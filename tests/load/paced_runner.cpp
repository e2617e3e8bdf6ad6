#include "tests/load/paced_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/status.h"

namespace incipit {

PacedRunner::PacedRunner(PacedRunnerOptions options) : options_(std::move(options)) {
  INCIPIT_CHECK(options_.vocab_size > static_cast<int32_t>(options_.avoided_tokens.size()));
}

absl::Status PacedRunner::Launch(const Step& step) {
  INCIPIT_CHECK(num_in_flight_ < steps_.size());
  StepInFlight& launched = steps_[(oldest_ + num_in_flight_++) % steps_.size()];
  const auto num_tokens = static_cast<int64_t>(step.tokens.size());
  device_end_ = std::max(device_end_, std::chrono::steady_clock::now()) + options_.step_time +
                num_tokens * options_.token_time;
  launched.end = device_end_;
  StepResult& result = launched.result;
  result.tokens.clear();
  result.logprobs.Clear();
  result.prompt_logprobs.Clear();
  for (const StepSample& sample : step.samples) {
    result.tokens.push_back(Sample(sample));
    if (sample.params->num_logprobs >= 0) {
      AppendLogprobs(result.tokens.back(), sample.params->num_logprobs, result.logprobs);
    }
  }
  for (const StepScore& score : step.scores) {
    AppendLogprobs(score.target, score.num_top, result.prompt_logprobs);
  }
  result.status.assign(step.samples.size(), RowStatus::kOk);
  result.score_status.assign(step.scores.size(), RowStatus::kOk);
  return absl::OkStatus();
}

absl::Status PacedRunner::Wait(StepResult& result) {
  INCIPIT_CHECK(num_in_flight_ > 0);
  StepInFlight& step = steps_[oldest_];
  {
    MutexLock lock(mutex_);
    while (std::chrono::steady_clock::now() < step.end) never_.wait_until(mutex_, step.end);
  }
  oldest_ = (oldest_ + 1) % steps_.size();
  --num_in_flight_;
  std::swap(result, step.result);
  return absl::OkStatus();
}

absl::Status PacedRunner::ReadBlocks(std::span<const BlockId>, std::span<std::byte>) {
  return Unimplemented("the paced runner stores no keys and values");
}

TokenId PacedRunner::Sample(const StepSample& sample) const {
  if (options_.sampled_token >= 0) return options_.sampled_token;
  const uint64_t bits = RandomBits(sample.params->seed, static_cast<uint32_t>(sample.choice),
                                   static_cast<uint64_t>(sample.position));
  const auto vocab_size = static_cast<uint64_t>(options_.vocab_size);
  auto token = static_cast<TokenId>(bits % vocab_size);
  const auto is_in = [&token](const auto& tokens) {
    return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
  };
  // The loop ends after `vocab_size` tokens at the latest, because a request may ban every token.
  for (int32_t i = 0; i < options_.vocab_size; ++i) {
    if (!is_in(sample.banned) && !is_in(options_.avoided_tokens)) break;
    token = (token + 1) % options_.vocab_size;
  }
  return token;
}

void PacedRunner::AppendLogprobs(TokenId token, int32_t num_top, Logprobs& logprobs) const {
  logprobs.chosen.push_back({.token = token, .logprob = -1});
  logprobs.rank.push_back(1);
  for (int32_t i = 0; i < num_top; ++i) {
    logprobs.top.push_back({.token = (token + i) % options_.vocab_size, .logprob = -1});
  }
  logprobs.top_begin.push_back(static_cast<int32_t>(logprobs.top.size()));
}

}  // namespace incipit
