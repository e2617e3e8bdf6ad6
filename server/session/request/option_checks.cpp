#include "server/session/request/option_checks.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "server/session/request/field_checks.h"

namespace incipit {
namespace {

// Maximum number of output tokens of a request. A larger max_tokens is reduced to this number, so
// that sums of token counts fit in 32 bits.
constexpr uint32_t kTokensMax = 1u << 30;
// A temperature below this value means greedy sampling: always the most probable token.
constexpr float kGreedyBelow = 1e-5f;
// Maximum of cache.retention.ttl and cache.retention.pin. A longer time is reduced to this maximum,
// so that sums of times do not overflow. The limits that flags set are smaller and are checked
// later.
constexpr Duration kRetentionMax = std::chrono::hours(24 * 365);

absl::Status CheckLogitBias(const SamplingDraft& draft, const ServedModel& model,
                            const RequestLimits& limits, std::vector<TokenBias>& out) {
  constexpr std::string_view kField = "sampling.logit_bias";
  INCIPIT_RETURN_IF_ERROR(
      CheckCount(kField, draft.logit_bias.size(), "entries", limits.logit_bias_max));
  for (const auto& [id, bias] : draft.logit_bias) {
    const std::string field = fmt::format("{}[{}]", kField, id);
    if (id >= static_cast<uint32_t>(model.vocab_size)) {
      return WithBound(
          InvalidField(field, "is {}; this model's token ids are below {}", id, model.vocab_size),
          model.vocab_size - 1);
    }
    INCIPIT_RETURN_IF_ERROR(CheckRange(field, bias, -100, 100));
    out.push_back({static_cast<TokenId>(id), bias});
  }
  std::sort(out.begin(), out.end(),
            [](const TokenBias& a, const TokenBias& b) { return a.token < b.token; });
  return absl::OkStatus();
}

absl::Status CheckStopTokens(OutputDraft& draft, const ServedModel& model,
                             const RequestLimits& limits, CheckedRequest& out) {
  constexpr std::string_view kField = "output.stop_token_ids";
  INCIPIT_RETURN_IF_ERROR(
      CheckCount(kField, draft.stop_token_ids.size(), "ids", limits.stop_tokens_max));
  INCIPIT_RETURN_IF_ERROR(CheckTokens(kField, draft.stop_token_ids, model));
  auto& tokens = out.request.stop_tokens = std::move(draft.stop_token_ids);
  if (!draft.ignore_eos) tokens.insert(tokens.end(), model.eos_ids.begin(), model.eos_ids.end());
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  if (out.request.output_tokens_min > 0 && std::ssize(tokens) == model.vocab_size) {
    return InvalidField(
        kField,
        "must not contain all {} tokens of the vocabulary if min_tokens is above 0 (the "
        "end-of-sequence tokens count as contained)",
        model.vocab_size);
  }
  return absl::OkStatus();
}

absl::Status CheckStops(OutputDraft& draft, const ServedModel& model, const RequestLimits& limits,
                        CheckedRequest& out) {
  INCIPIT_RETURN_IF_ERROR(CheckCount("output.stop", std::max(draft.num_stop, draft.stop.size()),
                                     "strings", limits.stop_strings_max));
  for (size_t i = 0; i < draft.stop.size(); ++i) {
    const std::string field = fmt::format("output.stop[{}]", i);
    if (draft.stop[i].empty()) return InvalidField(field, "is empty");
    INCIPIT_RETURN_IF_ERROR(CheckBytes(field, draft.stop[i].size(), limits.stop_string_bytes_max));
  }
  if (!draft.stop.empty() && !model.has_tokenizer) {
    return Refuse(Reason::kNoTokenizer,
                  "output.stop needs a tokenizer, and this model has none; "
                  "use output.stop_token_ids instead");
  }
  if (!draft.stop.empty()) {
    out.output.stop = std::make_shared<const StopStringSet>(std::move(draft.stop));
  }
  return CheckStopTokens(draft, model, limits, out);
}

absl::StatusOr<int32_t> CheckLogprobs(std::string_view field, uint32_t value,
                                      const RequestLimits& limits) {
  if (value <= static_cast<uint32_t>(limits.logprobs_max)) return static_cast<int32_t>(value);
  return WithBound(InvalidField(field, "is {}; at most {} log probabilities are reported per token",
                                value, limits.logprobs_max),
                   limits.logprobs_max);
}

// Converts `span`, a time that a client sent, to a Duration. A time longer than kRetentionMax
// becomes kRetentionMax. Returns INVALID_FIELD if the time is 0 or negative, or if `span.nanos` is
// a whole second or more.
absl::StatusOr<Duration> CheckSpan(std::string_view field, const RawSpan& span) {
  if (span.nanos <= -1'000'000'000 || span.nanos >= 1'000'000'000) {
    return InvalidField(
        field, "has {} nanos; the nanos must be less than one second (1,000,000,000)", span.nanos);
  }
  if (span.seconds < 0 || span.nanos < 0 || (span.seconds == 0 && span.nanos == 0)) {
    return InvalidField(field, "is {} s; the time must be above 0",
                        static_cast<double>(span.seconds) + span.nanos * 1e-9);
  }
  if (span.seconds >= std::chrono::duration_cast<std::chrono::seconds>(kRetentionMax).count()) {
    return kRetentionMax;
  }
  return std::chrono::seconds(span.seconds) + std::chrono::nanoseconds(span.nanos);
}

absl::Status CheckRetention(const RetentionDraft& draft, const RequestLimits& limits,
                            Retention& out) {
  if (draft.priority) {
    if (*draft.priority < 0 || *draft.priority > kRetentionPriorityMax) {
      return WithBoundOf(
          *draft.priority, kRetentionPriorityMax,
          InvalidField("cache.retention.priority", "is {}; the priority must be from 0 to {}",
                       *draft.priority, kRetentionPriorityMax));
    }
    out.priority = *draft.priority;
  }
  if (draft.time_to_live) {
    constexpr std::string_view kField = "cache.retention.ttl";
    INCIPIT_ASSIGN_OR_RETURN(out.time_to_live, CheckSpan(kField, *draft.time_to_live));
    if (out.time_to_live > limits.cache_ttl_max) {
      return WithBound(
          InvalidField(kField, "is {} s; at most {} s are allowed", ToSeconds(out.time_to_live),
                       ToSeconds(limits.cache_ttl_max)),
          std::chrono::duration_cast<std::chrono::seconds>(limits.cache_ttl_max).count());
    }
  }
  if (draft.pin) {
    INCIPIT_ASSIGN_OR_RETURN(out.pin, CheckSpan("cache.retention.pin", *draft.pin));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSampling(const SamplingDraft& draft, const ServedModel& model,
                           const RequestLimits& limits, CheckedRequest& out) {
  SamplingParams& params = out.request.sampling;
  const GenerationDefaults& defaults = model.defaults;
  params.temperature = draft.temperature.value_or(defaults.temperature.value_or(1));
  INCIPIT_RETURN_IF_ERROR(CheckRange("sampling.temperature", params.temperature, 0, 100));
  if (params.temperature < kGreedyBelow) params.temperature = 0;

  params.top_p = draft.top_p.value_or(defaults.top_p.value_or(1));
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return WithBoundOf(
        params.top_p, 1,
        InvalidField("sampling.top_p", "is {}; the value must be above 0 and at most 1",
                     params.top_p));
  }
  const uint32_t top_k = draft.top_k.value_or(static_cast<uint32_t>(defaults.top_k.value_or(0)));
  params.top_k = top_k >= static_cast<uint32_t>(model.vocab_size) ? 0 : static_cast<int32_t>(top_k);
  params.min_p = draft.min_p;
  INCIPIT_RETURN_IF_ERROR(CheckRange("sampling.min_p", params.min_p, 0, 1));

  params.repetition_penalty =
      draft.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1));
  if (!(params.repetition_penalty > 0 && params.repetition_penalty <= 100)) {
    return WithBoundOf(params.repetition_penalty, 100,
                       InvalidField("sampling.repetition_penalty",
                                    "is {}; the value must be above 0 and at most 100",
                                    params.repetition_penalty));
  }
  params.presence_penalty = draft.presence_penalty;
  INCIPIT_RETURN_IF_ERROR(CheckRange("sampling.presence_penalty", params.presence_penalty, -2, 2));
  params.frequency_penalty = draft.frequency_penalty;
  INCIPIT_RETURN_IF_ERROR(
      CheckRange("sampling.frequency_penalty", params.frequency_penalty, -2, 2));
  out.has_seed = draft.seed.has_value();
  params.seed = draft.seed.value_or(0);
  return CheckLogitBias(draft, model, limits, params.logit_bias);
}

absl::Status CheckOutput(OutputDraft draft, const ServedModel& model, const RequestLimits& limits,
                         CheckedRequest& out) {
  Request& request = out.request;
  if (draft.num_choices > static_cast<uint32_t>(limits.choices_max)) {
    return WithBound(InvalidField("output.n", "is {}; at most {} choices are allowed",
                                  draft.num_choices, limits.choices_max),
                     limits.choices_max);
  }
  request.num_choices = std::max(1, static_cast<int32_t>(draft.num_choices));
  request.output_tokens_max = static_cast<int32_t>(std::min(draft.max_tokens, kTokensMax));
  if (draft.max_tokens > 0 && draft.min_tokens > draft.max_tokens) {
    return WithBound(InvalidField("output.min_tokens",
                                  "is {}; the value must be at most max_tokens, which is {}",
                                  draft.min_tokens, draft.max_tokens),
                     draft.max_tokens);
  }
  if (draft.min_tokens >= static_cast<uint32_t>(model.max_model_len)) {
    return WithBound(InvalidField("output.min_tokens", "is {}; this model's context is {} tokens",
                                  draft.min_tokens, model.max_model_len),
                     model.max_model_len - 1);
  }
  request.output_tokens_min = static_cast<int32_t>(draft.min_tokens);
  if (draft.logprobs) {
    INCIPIT_ASSIGN_OR_RETURN(request.sampling.num_logprobs,
                             CheckLogprobs("output.logprobs", *draft.logprobs, limits));
    out.output.logprobs = true;
  }
  if (draft.prompt_logprobs) {
    INCIPIT_ASSIGN_OR_RETURN(
        request.prompt_logprobs,
        CheckLogprobs("output.prompt_logprobs", *draft.prompt_logprobs, limits));
    request.read_cache = false;
  }
  out.output.include_stop = draft.include_stop;
  out.output.keep_special_tokens = draft.keep_special_tokens;
  out.output.tokens_min = request.output_tokens_min;
  return CheckStops(draft, model, limits, out);
}

absl::Status CheckCache(CacheDraft draft, const RequestLimits& limits, CheckedRequest& out) {
  INCIPIT_RETURN_IF_ERROR(CheckBytes("cache.salt", draft.salt.size(), limits.cache_salt_bytes_max));
  out.cache_salt = std::move(draft.salt);
  if (draft.skip_read) out.request.read_cache = false;
  return CheckRetention(draft.retention, limits, out.request.retention);
}

}  // namespace incipit
