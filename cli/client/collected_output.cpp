#include "cli/client/collected_output.h"

#include <fmt/format.h>

#include <algorithm>

namespace incipit {
namespace {

using nlohmann::ordered_json;

// Maximum number of choices (outputs for one prompt) that the client collects. Without a limit, a
// faulty server could make the client allocate unbounded memory.
constexpr uint32_t kChoicesMax = 1024;

ordered_json TokenJson(const v1::TokenLogprob& token) {
  return {{"token_id", token.token_id()}, {"logprob", token.logprob()}, {"text", token.text()}};
}

ordered_json PositionsJson(const std::vector<v1::PositionLogprobs>& positions) {
  ordered_json array = ordered_json::array();
  for (const v1::PositionLogprobs& position : positions) {
    ordered_json entry = TokenJson(position.token());
    entry["rank"] = position.rank();
    entry["top"] = ordered_json::array();
    for (const v1::TokenLogprob& token : position.top()) entry["top"].push_back(TokenJson(token));
    array.push_back(std::move(entry));
  }
  return array;
}

const char* NameOf(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    default:
      return "unspecified";
  }
}

const char* NameOf(v1::CacheMissReason reason) {
  switch (reason) {
    case v1::CACHE_MISS_REASON_NONE:
      return "none";
    case v1::CACHE_MISS_REASON_UNSEEN:
      return "unseen";
    case v1::CACHE_MISS_REASON_EVICTED:
      return "evicted";
    case v1::CACHE_MISS_REASON_OTHER_NAMESPACE:
      return "other_namespace";
    case v1::CACHE_MISS_REASON_LOAD_FAILED:
      return "load_failed";
    default:
      return "unspecified";
  }
}

ordered_json MissJson(const v1::CacheMiss& miss) {
  ordered_json json = {{"reason", NameOf(miss.reason())}};
  if (miss.has_first_missing_block()) json["first_missing_block"] = miss.first_missing_block();
  if (miss.has_first_differing_token()) {
    json["first_differing_token"] = miss.first_differing_token();
  }
  if (miss.has_evicted_seconds_ago()) json["evicted_ms_ago"] = miss.evicted_seconds_ago() * 1e3;
  return json;
}

ordered_json ChoiceJson(const CollectedOutput::Choice& choice, bool with_logprobs) {
  ordered_json json = {{"text", choice.text},
                       {"token_ids", choice.token_ids},
                       {"finish_reason", NameOf(choice.last.finish_reason())}};
  if (choice.last.has_stop_string()) json["stop_string"] = choice.last.stop_string();
  if (choice.last.has_stop_token_id()) json["stop_token_id"] = choice.last.stop_token_id();
  json["logprobs"] = with_logprobs ? PositionsJson(choice.logprobs) : ordered_json();
  return json;
}

}  // namespace

void CollectedOutput::Add(const v1::GenerateResponse& response) {
  request_id_ = response.request_id();
  prompt_logprobs_.insert(prompt_logprobs_.end(), response.prompt_logprobs().begin(),
                          response.prompt_logprobs().end());
  for (const v1::Delta& delta : response.deltas()) {
    if (delta.choice() >= kChoicesMax) continue;
    if (delta.choice() >= choices_.size()) choices_.resize(delta.choice() + 1);
    Choice& choice = choices_[delta.choice()];
    choice.text += delta.text();
    choice.token_ids.insert(choice.token_ids.end(), delta.token_ids().begin(),
                            delta.token_ids().end());
    choice.logprobs.insert(choice.logprobs.end(), delta.logprobs().begin(), delta.logprobs().end());
    if (delta.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) choice.last = delta;
  }
  if (response.has_usage()) usage_ = response.usage();
}

bool CollectedOutput::has_text() const {
  return std::any_of(choices_.begin(), choices_.end(),
                     [](const Choice& choice) { return !choice.text.empty(); });
}

ordered_json CollectedOutput::ToJson(bool with_logprobs, bool with_prompt_logprobs) const {
  ordered_json json = ChoiceJson(choices_[0], with_logprobs);
  if (with_prompt_logprobs) json["prompt_logprobs"] = PositionsJson(prompt_logprobs_);
  json["usage"] = {
      {"prompt_tokens", usage_.prompt_tokens()},
      {"completion_tokens", usage_.completion_tokens()},
      {"cached_tokens", usage_.cached_tokens()},
      {"cached_tokens_by_tier",
       {{"device", usage_.cached_tokens_by_tier().device()},
        {"disk", usage_.cached_tokens_by_tier().disk()}}},
      {"copied_tokens", usage_.copied_tokens()},
      {"cache_miss", usage_.has_cache_miss() ? MissJson(usage_.cache_miss()) : ordered_json()},
      {"queue_ms", usage_.queue_seconds() * 1e3},
      {"ttft_ms", usage_.time_to_first_token_seconds() * 1e3},
      {"total_ms", usage_.total_seconds() * 1e3}};
  json["request_id"] = request_id_;
  if (choices_.size() > 1) {
    json["choices"] = ordered_json::array();
    for (const Choice& choice : choices_) {
      json["choices"].push_back(ChoiceJson(choice, with_logprobs));
    }
  }
  return json;
}

std::string DescribeUsage(const v1::Usage& usage) {
  std::string why;
  const v1::CacheMiss& miss = usage.cache_miss();
  if (miss.reason() == v1::CACHE_MISS_REASON_EVICTED) {
    why = fmt::format(" (the first uncached prompt block was evicted {:.1f} s ago)",
                      miss.evicted_seconds_ago());
  } else if (miss.reason() == v1::CACHE_MISS_REASON_OTHER_NAMESPACE) {
    why = " (the first prompt block is cached under another cache salt)";
  }
  return fmt::format(
      "{} output tokens; {} of {} prompt tokens cached{}; first output token after {:.1f} ms, "
      "all output tokens after {:.1f} ms",
      usage.completion_tokens(), usage.cached_tokens(), usage.prompt_tokens(), why,
      usage.time_to_first_token_seconds() * 1e3, usage.total_seconds() * 1e3);
}

}  // namespace incipit
