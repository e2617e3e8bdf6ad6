#include "tests/sim/expected_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace incipit {
namespace {

// Counts each token in the prompt and in the output, independently of the scheduler's counters.
std::vector<TokenCount> CountTokens(std::span<const TokenId> tokens, size_t num_prompt) {
  std::map<TokenId, TokenCount> counts;
  for (size_t i = 0; i < tokens.size(); ++i) {
    TokenCount& count = counts[tokens[i]];
    count.token = tokens[i];
    ++(i < num_prompt ? count.in_prompt : count.in_output);
  }
  std::vector<TokenCount> sorted;
  for (const auto& [token, count] : counts) sorted.push_back(count);
  return sorted;
}

}  // namespace

ExpectedRequest::ExpectedRequest(const Request& request, const FakeModel& model)
    : request_(request), model_(model) {
  for (int32_t choice = 0; choice < request.num_choices; ++choice) {
    choices_.push_back(Output(choice));
  }
}

ExpectedChoice ExpectedRequest::Output(int32_t choice) const {
  ExpectedChoice output;
  std::vector<TokenId> tokens = request_.prompt;
  const size_t num_prompt = tokens.size();
  while (true) {
    const uint64_t row = FakeModel::Row(tokens);
    std::vector<TokenCount> counts;
    if (request_.sampling.has_penalties()) counts = CountTokens(tokens, num_prompt);
    StepSample sample = {.params = &request_.sampling,
                         .choice = choice,
                         .position = static_cast<int64_t>(tokens.size()),
                         .counts = counts};
    const auto num_output = static_cast<int32_t>(output.tokens.size());
    const bool may_stop = num_output >= request_.output_tokens_min;
    if (!may_stop) sample.banned = request_.stop_tokens;
    const TokenId token = model_.Sample(row, sample);
    tokens.push_back(token);
    output.tokens.push_back(token);
    output.rows.push_back(row);
    if (may_stop && std::ranges::count(request_.stop_tokens, token) > 0) {
      output.finish = FinishReason::kStop;
      return output;
    }
    if (num_output + 1 == request_.output_tokens_max) {
      output.finish = FinishReason::kLength;
      return output;
    }
  }
}

std::vector<TokenId> ExpectedRequest::TokensOf(int32_t choice) const {
  std::vector<TokenId> tokens = request_.prompt;
  const auto& output = choices_[static_cast<size_t>(choice)].tokens;
  tokens.insert(tokens.end(), output.begin(), output.end());
  return tokens;
}

bool ExpectedRequest::has_pending_cancel() const {
  return std::ranges::any_of(
      choices_, [](const ExpectedChoice& choice) { return choice.cancelled && !choice.ended; });
}

bool ExpectedRequest::has_received() const {
  return std::ranges::any_of(choices_,
                             [](const ExpectedChoice& choice) { return choice.num_received > 0; });
}

bool ExpectedRequest::ended() const {
  return std::ranges::all_of(choices_, &ExpectedChoice::ended);
}

std::string ExpectedRequest::Receive(const AdmissionEvent& event) {
  if (std::exchange(admitted_, true)) return "admitted twice";
  if (event.num_prompt_tokens != static_cast<int32_t>(request_.prompt.size())) {
    return "the admission event has a wrong number of prompt tokens";
  }
  if (event.num_cached_tokens >= event.num_prompt_tokens)
    return "all prompt tokens were cached, but the last one must be computed";
  const bool reads = request_.read_cache && request_.prompt_logprobs < 0;
  if (!reads && event.num_cached_tokens > 0)
    return "the request must not read the cache, but cached tokens were used";
  if (event.queue_time < Duration::zero()) return "admitted before it arrived";
  if (SumOf(event.waits) != event.queue_time)
    return "the sum of the waiting times is not the time in the queue";
  if (std::ranges::min(event.waits) < Duration::zero()) return "a waiting time is negative";
  return {};
}

std::string ExpectedRequest::Receive(const PromptLogprobsEvent& event, const Logprobs& logprobs) {
  if (request_.prompt_logprobs < 0)
    return "the request wants no log probabilities of the prompt, but got some";
  if (event.position != next_scored_) {
    return fmt::format("prompt logprobs from {}, not {}", event.position, next_scored_);
  }
  for (int32_t i = 0; i < event.num_rows; ++i, ++next_scored_) {
    const auto before = std::span(request_.prompt).first(static_cast<size_t>(next_scored_));
    Logprobs expected;
    const TokenId target = request_.prompt[static_cast<size_t>(next_scored_)];
    model_.AppendLogprobs(FakeModel::Row(before), target, request_.prompt_logprobs, expected);
    const int32_t row = event.first_row + i;
    if (row >= logprobs.num_rows())
      return "a log probability of the prompt is in a row that the step does not have";
    const TokenLogprob& chosen = logprobs.chosen[static_cast<size_t>(row)];
    if (chosen.token != target || chosen.logprob != expected.chosen[0].logprob) {
      return fmt::format("wrong prompt logprob at {}", next_scored_);
    }
    if (logprobs.top_begin[row + 1] - logprobs.top_begin[row] != request_.prompt_logprobs) {
      return "a prompt token has a wrong number of most probable tokens";
    }
  }
  return {};
}

std::string ExpectedRequest::Receive(const TokenEvent& event, const Logprobs& logprobs, Time now) {
  if (event.choice < 0 || event.choice >= request_.num_choices) return "an unknown choice";
  ExpectedChoice& choice = choices_[static_cast<size_t>(event.choice)];
  if (choice.ended) return "a choice received an event after its end";
  choice.ended = event.finish.has_value();
  if (event.token < 0) {
    if (!event.finish) return "an event has neither a token nor the end of the choice";
    if (*event.finish == FinishReason::kCancelled && !choice.cancelled) return "not cancelled";
    if (*event.finish == FinishReason::kDeadline && now < request_.deadline) return "not late";
    const bool regular =
        *event.finish == FinishReason::kStop || *event.finish == FinishReason::kLength;
    return regular ? "the choice ended regularly, but without a last token" : "";
  }
  if (!admitted_) return "a token before admission";
  if (request_.prompt_logprobs >= 0 &&
      next_scored_ != static_cast<int32_t>(request_.prompt.size())) {
    return "a token came before all log probabilities of the prompt";
  }
  std::string error = CheckToken(choice, event, logprobs);
  ++choice.num_received;
  return error;
}

std::string ExpectedRequest::CheckToken(const ExpectedChoice& choice, const TokenEvent& event,
                                        const Logprobs& logprobs) const {
  const size_t at = choice.num_received;
  if (at >= choice.tokens.size()) return "more tokens than expected";
  if (event.token != choice.tokens[at]) {
    return fmt::format("choice {}: token {} is {}, not {}", event.choice, at, event.token,
                       choice.tokens[at]);
  }
  const bool last = at + 1 == choice.tokens.size();
  if (event.finish.has_value() != last) return "the choice did not end at its expected last token";
  if (last && *event.finish != choice.finish) return "the choice ended with a wrong finish reason";
  if ((event.logprobs_row >= 0) != (request_.sampling.num_logprobs >= 0)) {
    return "logprobs not as asked";
  }
  if (event.logprobs_row < 0) return {};
  if (event.logprobs_row >= logprobs.num_rows()) return "logprobs beyond the step's";
  const TokenLogprob& chosen = logprobs.chosen[static_cast<size_t>(event.logprobs_row)];
  if (chosen.token != event.token ||
      chosen.logprob != model_.Logprob(choice.rows[at], event.token)) {
    return "somebody else's logprob";
  }
  return {};
}

}  // namespace incipit
