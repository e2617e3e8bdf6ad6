#include "cli/client/request_flags.h"

#include <fmt/format.h>

#include <charconv>

#include "base/status.h"

namespace incipit {
namespace {

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void FillDuration(Duration from, google::protobuf::Duration& to) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(from);
  to.set_seconds(seconds.count());
  to.set_nanos(static_cast<int32_t>(std::chrono::nanoseconds(from - seconds).count()));
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ParseTokenIds(std::string_view text) {
  std::vector<uint32_t> ids;
  while (true) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    const auto id = ParseNumber<uint32_t>(item);
    if (!id) {
      return InvalidArgument(
          "\"{}\" is not a token id; separate token ids with commas, as in 1,2,3",
          item.substr(0, 80));
    }
    ids.push_back(*id);
    if (comma == std::string_view::npos) return ids;
    text.remove_prefix(comma + 1);
  }
}

void RequestFlags::Bind(Flags& flags) {
  BindOutput(flags);
  BindSampling(flags);
  flags.Group("Cache and queue");
  flags.String({"cache-salt", "TEXT",
                "Cache salt of the request. Requests with different salts share no cached blocks."},
               cache_salt_);
  flags.Switch(
      {"skip-cache", "", "Compute the whole prompt, without cached blocks of the prefix cache."},
      skip_cache_);
  constexpr FlagRange<Duration> kTimes = {Duration::zero(), std::chrono::hours(24 * 365)};
  flags.Integer({"cache-priority", "N",
                 "Retention priority of the request's cached blocks, from 0 to 100. Blocks with a "
                 "priority below 50 are evicted before other blocks, and blocks with a priority "
                 "above 50 after other blocks."},
                cache_priority_);
  flags.Interval({"cache-ttl", "TIME",
                  "Time after the end of the request at which the cached blocks of the request are "
                  "evicted; 0: no time limit."},
                 cache_ttl_, kTimes);
  flags.Interval({"cache-pin", "TIME",
                  "Time after the end of the request during which the cached blocks of the request "
                  "are pinned; "
                  "0: no pin. Pinned blocks are evicted only after all other blocks. The tenant's "
                  "share of the "
                  "cache limits the number of pinned blocks."},
                 cache_pin_, kTimes);
  flags.Integer({"priority", "N",
                 "Priority of the request in the queue. Waiting requests with a higher priority "
                 "start first."},
                priority_);
  flags.String({"request-id", "TEXT", "Label of the request in the logs of the server."},
               request_id_);
  flags.String(
      {"model", "NAME",
       "Name of the expected model. The request fails if the server has loaded another model."},
      model_);
}

void RequestFlags::BindOutput(Flags& flags) {
  flags.Group("Length and stop conditions");
  flags.Integer({"max-tokens", "N",
                 "Maximum number of output tokens per choice; 0: up to the end of the context."},
                max_tokens_);
  flags.Integer(
      {"min-tokens", "N",
       "Minimum number of output tokens. Until this number is reached, no stop token is sampled."},
      min_tokens_);
  flags.Strings(
      {"stop", "TEXT",
       "Stop text: the output ends before the first occurrence of TEXT. The flag can be repeated."},
      stop_);
  flags.Custom(
      {"stop-token-ids", "1,2,3",
       "Ids of stop tokens: the output ends if one of these tokens is sampled."},
      [this](std::string_view text) -> absl::Status {
        INCIPIT_ASSIGN_OR_RETURN(stop_token_ids_, ParseTokenIds(text));
        return absl::OkStatus();
      },
      [this] { return fmt::format("{}", fmt::join(stop_token_ids_, ",")); });
  flags.Switch({"include-stop", "", "Include the stop text or the stop token in the output."},
               include_stop_);
  flags.Switch(
      {"ignore-eos", "", "Do not end the output at the end-of-sequence tokens of the model."},
      ignore_eos_);
  flags.Switch({"keep-special-tokens", "", "Include special tokens in the output text."},
               keep_special_tokens_);
  flags.Integer({"n", "N", "Number of choices (outputs for the same prompt)."}, num_choices_);
  flags.Integer(
      {"logprobs", "K",
       "Report, at each output position, the log probabilities of the output token and of the K "
       "most likely tokens."},
      logprobs_);
  flags.Integer(
      {"prompt-logprobs", "K",
       "Report, at each prompt position, the log probabilities of the prompt token and of the K "
       "most likely tokens."},
      prompt_logprobs_);
}

void RequestFlags::BindSampling(Flags& flags) {
  flags.Group("Sampling (a flag that is not set has the default of the server or the model)");
  flags.Real({"temperature", "X", "Sampling temperature; 0: always the most likely token."},
             temperature_);
  flags.Real({"top-p", "X",
              "Sample only from the smallest set of most likely tokens with a total probability of "
              "at least X."},
             top_p_);
  flags.Integer({"top-k", "N", "Sample from the N most likely tokens; 0: from all tokens."},
                top_k_);
  flags.Real({"min-p", "X",
              "Exclude tokens with less than X times the probability of the most likely token."},
             min_p_);
  flags.Real({"repetition-penalty", "X",
              "Penalty for tokens that occur in the prompt or the output; 1: no penalty."},
             repetition_penalty_);
  flags.Real(
      {"presence-penalty", "X", "Penalty for tokens that occur in the output; 0: no penalty."},
      presence_penalty_);
  flags.Real({"frequency-penalty", "X",
              "Penalty for each occurrence of a token in the output; 0: no penalty."},
             frequency_penalty_);
  flags.Custom(
      {"logit-bias", "ID:BIAS", "Add BIAS to the logit of the token ID. The flag can be repeated."},
      [this](std::string_view text) -> absl::Status {
        const size_t colon = text.find(':');
        const auto id = ParseNumber<uint32_t>(text.substr(0, colon));
        const auto bias = colon == std::string_view::npos
                              ? std::nullopt
                              : ParseNumber<float>(text.substr(colon + 1));
        if (!id || !bias)
          return InvalidArgument("\"{}\" is not of the form ID:BIAS, such as 15:-2", text);
        logit_bias_.emplace_back(*id, *bias);
        return absl::OkStatus();
      },
      [] { return std::string(); });
  flags.Integer({"seed", "N", "Random seed. The same seed and prompt produce the same text."},
                seed_);
}

void RequestFlags::FillSampling(v1::SamplingOptions& sampling) const {
  if (temperature_) sampling.set_temperature(*temperature_);
  if (top_p_) sampling.set_top_p(*top_p_);
  if (top_k_) sampling.set_top_k(*top_k_);
  if (min_p_) sampling.set_min_p(*min_p_);
  if (repetition_penalty_) sampling.set_repetition_penalty(*repetition_penalty_);
  if (presence_penalty_) sampling.set_presence_penalty(*presence_penalty_);
  if (frequency_penalty_) sampling.set_frequency_penalty(*frequency_penalty_);
  for (const auto& [id, bias] : logit_bias_) (*sampling.mutable_logit_bias())[id] = bias;
  if (seed_) sampling.set_seed(*seed_);
}

void RequestFlags::FillOutput(v1::OutputOptions& output) const {
  output.set_max_tokens(max_tokens_);
  output.set_min_tokens(min_tokens_);
  for (const std::string& stop : stop_) output.add_stop(stop);
  for (const uint32_t id : stop_token_ids_) output.add_stop_token_ids(id);
  output.set_include_stop(include_stop_);
  output.set_ignore_eos(ignore_eos_);
  output.set_keep_special_tokens(keep_special_tokens_);
  output.set_n(num_choices_);
  if (logprobs_) output.set_logprobs(*logprobs_);
  if (prompt_logprobs_) output.set_prompt_logprobs(*prompt_logprobs_);
}

void RequestFlags::FillRetention(v1::CacheOptions& cache) const {
  if (cache_priority_) cache.mutable_retention()->set_priority(*cache_priority_);
  if (cache_ttl_ > Duration::zero()) {
    FillDuration(cache_ttl_, *cache.mutable_retention()->mutable_ttl());
  }
  if (cache_pin_ > Duration::zero()) {
    FillDuration(cache_pin_, *cache.mutable_retention()->mutable_pin());
  }
}

}  // namespace incipit
