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
          "has \"{}\"; it must be token ids with commas in between, such as 1,2,3",
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
  flags.String({"cache-salt", "TEXT", "Share cached blocks only with requests of the same salt."},
               cache_salt_);
  flags.Switch({"skip-cache", "", "Compute the whole prompt, whatever is cached."}, skip_cache_);
  constexpr FlagRange<Duration> kTimes = {Duration::zero(), std::chrono::hours(24 * 365)};
  flags.Integer({"cache-priority", "N",
                 "0 to 100: how long the blocks stay cached; below 50 they go before others, above "
                 "after them."},
                cache_priority_);
  flags.Interval({"cache-ttl", "TIME", "Give the blocks up so long after the answer. 0: no limit."},
                 cache_ttl_, kTimes);
  flags.Interval({"cache-pin", "TIME",
                  "Keep the blocks for so long after the answer, if there is room. 0: do not."},
                 cache_pin_, kTimes);
  flags.Integer({"priority", "N", "Higher goes first among the waiting."}, priority_);
  flags.String({"request-id", "TEXT", "A label for logs."}, request_id_);
  flags.String({"model", "NAME", "Fail unless this is the model that is served."}, model_);
}

void RequestFlags::BindOutput(Flags& flags) {
  flags.Group("Length and stops");
  flags.Integer({"max-tokens", "N", "Tokens of each choice at most; 0 is the rest of the context."},
                max_tokens_);
  flags.Integer({"min-tokens", "N", "No stop token is drawn before."}, min_tokens_);
  flags.Strings({"stop", "TEXT", "Ends the answer before this text. May be given several times."},
                stop_);
  flags.Custom(
      {"stop-token-ids", "1,2,3", "Ends the answer at one of these tokens."},
      [this](std::string_view text) -> absl::Status {
        INCIPIT_ASSIGN_OR_RETURN(stop_token_ids_, ParseTokenIds(text));
        return absl::OkStatus();
      },
      [this] { return fmt::format("{}", fmt::join(stop_token_ids_, ",")); });
  flags.Switch({"include-stop", "", "Show the stop text or stop token too."}, include_stop_);
  flags.Switch({"ignore-eos", "", "The model's end-of-sequence tokens end nothing."}, ignore_eos_);
  flags.Switch({"keep-special-tokens", "", "Show special tokens in the text."},
               keep_special_tokens_);
  flags.Integer({"n", "N", "Number of choices."}, num_choices_);
  flags.Integer(
      {"logprobs", "K", "Report each token's log probability and those of the K likeliest."},
      logprobs_);
  flags.Integer({"prompt-logprobs", "K", "The same for the prompt's tokens."}, prompt_logprobs_);
}

void RequestFlags::BindSampling(Flags& flags) {
  flags.Group("Sampling (the server's or the model's default where it is not given)");
  flags.Real({"temperature", "X", "0 is greedy."}, temperature_);
  flags.Real({"top-p", "X", "Draw from the likeliest tokens that sum up to this probability."},
             top_p_);
  flags.Integer({"top-k", "N", "Draw from the N likeliest tokens; 0 is all."}, top_k_);
  flags.Real({"min-p", "X", "Leave out what is this much less likely than the likeliest."}, min_p_);
  flags.Real({"repetition-penalty", "X", "Over prompt and answer; 1 is none."},
             repetition_penalty_);
  flags.Real({"presence-penalty", "X", "Over the answer."}, presence_penalty_);
  flags.Real({"frequency-penalty", "X", "Over the answer, each time that a token occurred."},
             frequency_penalty_);
  flags.Custom(
      {"logit-bias", "ID:BIAS", "Adds to a token's logit. May be given several times."},
      [this](std::string_view text) -> absl::Status {
        const size_t colon = text.find(':');
        const auto id = ParseNumber<uint32_t>(text.substr(0, colon));
        const auto bias = colon == std::string_view::npos
                              ? std::nullopt
                              : ParseNumber<float>(text.substr(colon + 1));
        if (!id || !bias)
          return InvalidArgument("is \"{}\"; it must be ID:BIAS, such as 15:-2", text);
        logit_bias_.emplace_back(*id, *bias);
        return absl::OkStatus();
      },
      [] { return std::string(); });
  flags.Integer({"seed", "N", "The same seed and prompt give the same text."}, seed_);
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
