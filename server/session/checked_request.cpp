#include "server/session/checked_request.h"

#include <incipit/v1/admin.pb.h>
#include <incipit/v1/inference.pb.h>

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "server/rpc/error_details.h"
#include "server/session/chat_request.h"

namespace incipit {
namespace {

// A bound that keeps a message's arithmetic in 32 bits; the context is far below it.
constexpr uint32_t kTokensMax = 1u << 30;
constexpr size_t kModelNameBytesMax = 256;
constexpr float kGreedyBelow = 1e-5f;
// Keeps sums of times in range; the server cuts what it grants far below it.
constexpr Duration kRetentionMax = std::chrono::hours(24 * 365);

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

absl::Status CheckBytes(std::string_view field, size_t size, int64_t max) {
  if (static_cast<int64_t>(size) <= max) return absl::OkStatus();
  return InvalidField(field, "has {} bytes; at most {} are allowed", size, max);
}

// Also refuses what is not a number, for which every comparison is false.
absl::Status CheckRange(std::string_view field, float value, float min, float max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return InvalidField(field, "is {}; it must be from {} to {}", value, min, max);
}

absl::Status CheckLabel(std::string_view label, const RequestLimits& limits) {
  INCIPIT_RETURN_IF_ERROR(CheckBytes("request_id", label.size(), limits.request_id_bytes_max));
  if (!IsPrintable(label)) {
    return InvalidField("request_id", "has a byte that is not printable ASCII");
  }
  return absl::OkStatus();
}

absl::Status CheckModelName(std::string_view name, const ServedModel& model) {
  if (name.empty() || name == model.name) return absl::OkStatus();
  INCIPIT_RETURN_IF_ERROR(CheckBytes("model", name.size(), kModelNameBytesMax));
  return WithReason(NotFound("model is not served here; this server's is \"{}\"", model.name),
                    reason::kModelNotFound);
}

absl::StatusOr<TokenId> CheckToken(std::string_view field, uint32_t id, const ServedModel& model) {
  if (id < static_cast<uint32_t>(model.vocab_size)) return static_cast<TokenId>(id);
  return InvalidField(field, "is {}; this model's token ids are below {}", id, model.vocab_size);
}

absl::StatusOr<std::vector<TokenId>> CheckTokens(
    std::string_view field, const google::protobuf::RepeatedField<uint32_t>& ids,
    const ServedModel& model) {
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<size_t>(ids.size()));
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= static_cast<uint32_t>(model.vocab_size)) {
      return CheckToken(fmt::format("{}[{}]", field, i), ids[i], model).status();
    }
    tokens.push_back(static_cast<TokenId>(ids[i]));
  }
  return tokens;
}

absl::Status CheckLogitBias(const v1::SamplingOptions& options, const ServedModel& model,
                            const RequestLimits& limits, std::vector<TokenBias>& out) {
  constexpr std::string_view kField = "sampling.logit_bias";
  if (options.logit_bias().size() > static_cast<size_t>(limits.logit_bias_max)) {
    return InvalidField(kField, "has {} entries; at most {} are allowed",
                        options.logit_bias().size(), limits.logit_bias_max);
  }
  for (const auto& [id, bias] : options.logit_bias()) {
    const std::string field = fmt::format("{}[{}]", kField, id);
    INCIPIT_ASSIGN_OR_RETURN(const TokenId token, CheckToken(field, id, model));
    INCIPIT_RETURN_IF_ERROR(CheckRange(field, bias, -100, 100));
    out.push_back({token, bias});
  }
  std::sort(out.begin(), out.end(),
            [](const TokenBias& a, const TokenBias& b) { return a.token < b.token; });
  return absl::OkStatus();
}

absl::Status CheckSampling(const v1::SamplingOptions& options, const ServedModel& model,
                           const RequestLimits& limits, CheckedRequest& out) {
  SamplingParams& params = out.request.sampling;
  const GenerationDefaults& defaults = model.defaults;
  params.temperature =
      options.has_temperature() ? options.temperature() : defaults.temperature.value_or(1);
  INCIPIT_RETURN_IF_ERROR(CheckRange("sampling.temperature", params.temperature, 0, 100));
  if (params.temperature < kGreedyBelow) params.temperature = 0;

  params.top_p = options.has_top_p() ? options.top_p() : defaults.top_p.value_or(1);
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return InvalidField("sampling.top_p", "is {}; it must be above 0 and at most 1", params.top_p);
  }
  const uint32_t top_k =
      options.has_top_k() ? options.top_k() : static_cast<uint32_t>(defaults.top_k.value_or(0));
  params.top_k = top_k >= static_cast<uint32_t>(model.vocab_size) ? 0 : static_cast<int32_t>(top_k);
  params.min_p = options.min_p();
  INCIPIT_RETURN_IF_ERROR(CheckRange("sampling.min_p", params.min_p, 0, 1));

  params.repetition_penalty = options.has_repetition_penalty()
                                  ? options.repetition_penalty()
                                  : defaults.repetition_penalty.value_or(1);
  if (!(params.repetition_penalty > 0 && params.repetition_penalty <= 100)) {
    return InvalidField("sampling.repetition_penalty", "is {}; it must be above 0 and at most 100",
                        params.repetition_penalty);
  }
  params.presence_penalty = options.presence_penalty();
  INCIPIT_RETURN_IF_ERROR(CheckRange("sampling.presence_penalty", params.presence_penalty, -2, 2));
  params.frequency_penalty = options.frequency_penalty();
  INCIPIT_RETURN_IF_ERROR(
      CheckRange("sampling.frequency_penalty", params.frequency_penalty, -2, 2));
  out.has_seed = options.has_seed();
  params.seed = static_cast<uint64_t>(options.seed());
  return CheckLogitBias(options, model, limits, params.logit_bias);
}

absl::Status CheckStops(const v1::OutputOptions& options, const ServedModel& model,
                        const RequestLimits& limits, CheckedRequest& out) {
  if (options.stop_size() > limits.stop_strings_max) {
    return InvalidField("output.stop", "has {} strings; at most {} are allowed",
                        options.stop_size(), limits.stop_strings_max);
  }
  for (int i = 0; i < options.stop_size(); ++i) {
    const std::string field = fmt::format("output.stop[{}]", i);
    if (options.stop(i).empty()) return InvalidField(field, "is empty");
    INCIPIT_RETURN_IF_ERROR(
        CheckBytes(field, options.stop(i).size(), limits.stop_string_bytes_max));
    out.answer.stop.push_back(options.stop(i));
  }
  if (!out.answer.stop.empty() && !model.has_tokenizer) {
    return WithReason(FailedPrecondition("output.stop needs text, and this model has no tokenizer; "
                                         "output.stop_token_ids does not"),
                      reason::kNoTokenizer);
  }
  if (options.stop_token_ids_size() > limits.stop_tokens_max) {
    return InvalidField("output.stop_token_ids", "has {} ids; at most {} are allowed",
                        options.stop_token_ids_size(), limits.stop_tokens_max);
  }
  INCIPIT_ASSIGN_OR_RETURN(out.request.stop_tokens,
                           CheckTokens("output.stop_token_ids", options.stop_token_ids(), model));
  auto& tokens = out.request.stop_tokens;
  if (!options.ignore_eos())
    tokens.insert(tokens.end(), model.eos_ids.begin(), model.eos_ids.end());
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  if (out.request.answer_tokens_min > 0 && std::ssize(tokens) == model.vocab_size) {
    return InvalidField("output.stop_token_ids",
                        "and the model's own are all {} tokens; none is left to draw before "
                        "min_tokens",
                        model.vocab_size);
  }
  return absl::OkStatus();
}

absl::StatusOr<int32_t> CheckLogprobs(std::string_view field, uint32_t value,
                                      const RequestLimits& limits) {
  if (value <= static_cast<uint32_t>(limits.logprobs_max)) return static_cast<int32_t>(value);
  return InvalidField(field, "is {}; at most {} are reported", value, limits.logprobs_max);
}

absl::Status CheckOutput(const v1::OutputOptions& options, const ServedModel& model,
                         const RequestLimits& limits, CheckedRequest& out) {
  Request& request = out.request;
  if (options.n() > static_cast<uint32_t>(limits.choices_max)) {
    return InvalidField("output.n", "is {}; at most {} choices are allowed", options.n(),
                        limits.choices_max);
  }
  request.num_choices = std::max(1, static_cast<int32_t>(options.n()));
  request.answer_tokens_max = static_cast<int32_t>(std::min(options.max_tokens(), kTokensMax));
  if (options.max_tokens() > 0 && options.min_tokens() > options.max_tokens()) {
    return InvalidField("output.min_tokens", "is {}; it must be at most max_tokens, which is {}",
                        options.min_tokens(), options.max_tokens());
  }
  if (options.min_tokens() >= static_cast<uint32_t>(model.max_model_len)) {
    return InvalidField("output.min_tokens", "is {}; this model's context is {} tokens",
                        options.min_tokens(), model.max_model_len);
  }
  request.answer_tokens_min = static_cast<int32_t>(options.min_tokens());
  if (options.has_logprobs()) {
    INCIPIT_ASSIGN_OR_RETURN(request.sampling.num_logprobs,
                             CheckLogprobs("output.logprobs", options.logprobs(), limits));
    out.answer.logprobs = true;
  }
  if (options.has_prompt_logprobs()) {
    INCIPIT_ASSIGN_OR_RETURN(
        request.prompt_logprobs,
        CheckLogprobs("output.prompt_logprobs", options.prompt_logprobs(), limits));
    request.read_cache = false;
  }
  out.answer.include_stop = options.include_stop();
  out.answer.keep_special_tokens = options.keep_special_tokens();
  out.answer.tokens_min = request.answer_tokens_min;
  return CheckStops(options, model, limits, out);
}

// Above 0; cut to kRetentionMax.
absl::StatusOr<Duration> CheckTime(std::string_view field,
                                   const google::protobuf::Duration& duration) {
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  if (nanos <= -1'000'000'000 || nanos >= 1'000'000'000) {
    return InvalidField(field, "has {} nanos; they must be less than a second", nanos);
  }
  if (seconds < 0 || nanos < 0 || (seconds == 0 && nanos == 0)) {
    return InvalidField(field, "is {} s; it must be above 0",
                        static_cast<double>(seconds) + nanos * 1e-9);
  }
  if (seconds >= std::chrono::duration_cast<std::chrono::seconds>(kRetentionMax).count()) {
    return kRetentionMax;
  }
  return std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanos);
}

absl::Status CheckRetention(const v1::CacheRetention& wish, const RequestLimits& limits,
                            Retention& out) {
  if (wish.has_priority()) {
    if (wish.priority() < 0 || wish.priority() > kRetentionPriorityMax) {
      return InvalidField("cache.retention.priority", "is {}; it must be from 0 to {}",
                          wish.priority(), kRetentionPriorityMax);
    }
    out.priority = wish.priority();
  }
  if (wish.has_ttl()) {
    constexpr std::string_view kField = "cache.retention.ttl";
    INCIPIT_ASSIGN_OR_RETURN(out.time_to_live, CheckTime(kField, wish.ttl()));
    if (out.time_to_live > limits.cache_ttl_max) {
      return InvalidField(kField, "is {} s; at most {} s are allowed", ToSeconds(out.time_to_live),
                          ToSeconds(limits.cache_ttl_max));
    }
  }
  if (wish.has_pin()) {
    INCIPIT_ASSIGN_OR_RETURN(out.pin, CheckTime("cache.retention.pin", wish.pin()));
  }
  return absl::OkStatus();
}

absl::Status CheckCache(const v1::CacheOptions& options, const RequestLimits& limits,
                        CheckedRequest& out) {
  INCIPIT_RETURN_IF_ERROR(
      CheckBytes("cache.salt", options.salt().size(), limits.cache_salt_bytes_max));
  out.cache_salt = options.salt();
  if (options.skip_read()) out.request.read_cache = false;
  return CheckRetention(options.retention(), limits, out.request.retention);
}

// What the two kinds of request share.
template <typename Message>
absl::StatusOr<CheckedRequest> CheckCommon(const Message& message, const ServedModel& model,
                                           const RequestLimits& limits) {
  CheckedRequest out;
  INCIPIT_RETURN_IF_ERROR(CheckLabel(message.request_id(), limits));
  out.label = message.request_id();
  INCIPIT_RETURN_IF_ERROR(CheckModelName(message.model(), model));
  INCIPIT_RETURN_IF_ERROR(CheckSampling(message.sampling(), model, limits, out));
  INCIPIT_RETURN_IF_ERROR(CheckOutput(message.output(), model, limits, out));
  INCIPIT_RETURN_IF_ERROR(CheckCache(message.cache(), limits, out));
  out.request.priority = std::clamp(message.priority(), limits.priority_min, limits.priority_max);
  return out;
}

}  // namespace

absl::StatusOr<CheckedRequest> CheckGenerateRequest(const v1::GenerateRequest& message,
                                                    const ServedModel& model,
                                                    const RequestLimits& limits) {
  INCIPIT_ASSIGN_OR_RETURN(CheckedRequest out, CheckCommon(message, model, limits));
  switch (message.prompt_case()) {
    case v1::GenerateRequest::kText:
      if (!model.has_tokenizer) {
        return WithReason(
            FailedPrecondition("text needs a tokenizer, and this model has none; token_ids do not"),
            reason::kNoTokenizer);
      }
      if (message.text().empty()) return InvalidField("text", "is empty");
      out.prompt = message.text();
      return out;
    case v1::GenerateRequest::kTokenIds: {
      if (message.token_ids().ids().empty()) return InvalidField("token_ids", "is empty");
      INCIPIT_ASSIGN_OR_RETURN(std::vector<TokenId> tokens,
                               CheckTokens("token_ids.ids", message.token_ids().ids(), model));
      out.prompt = std::move(tokens);
      return out;
    }
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return InvalidField("prompt", "is missing; set text or token_ids");
}

absl::StatusOr<CheckedRequest> CheckChatRequest(const v1::ChatRequest& message,
                                                const ServedModel& model,
                                                const RequestLimits& limits) {
  if (!model.has_tokenizer) {
    return WithReason(FailedPrecondition("Chat needs a tokenizer, and this model has none"),
                      reason::kNoTokenizer);
  }
  if (!model.has_chat_template) {
    return WithReason(FailedPrecondition("Chat needs a chat template, and this model has none"),
                      reason::kNoChatTemplate);
  }
  INCIPIT_ASSIGN_OR_RETURN(CheckedRequest out, CheckCommon(message, model, limits));
  INCIPIT_ASSIGN_OR_RETURN(out.prompt, CheckConversation(message, limits));
  return out;
}

absl::Status SetPrompt(std::vector<TokenId> prompt, std::string_view field,
                       const ServedModel& model, const RequestLimits& limits,
                       CheckedRequest& request) {
  if (prompt.empty()) return InvalidField(field, "has no tokens");
  const auto num_prompt = static_cast<int64_t>(prompt.size());
  const auto too_long = [&](std::string_view why, int64_t bound) {
    return FieldViolation(field, fmt::format("has {} tokens; {} {}", num_prompt, why, bound),
                          reason::kPromptTooLong);
  };
  if (limits.prompt_tokens_max > 0 && num_prompt > limits.prompt_tokens_max) {
    return too_long("prompt-tokens-max is", limits.prompt_tokens_max);
  }
  if (num_prompt > model.max_model_len) {
    return too_long("this model's context is", model.max_model_len);
  }
  if (num_prompt == model.max_model_len) {
    return too_long("no room for output: this model's context is", model.max_model_len);
  }
  if (num_prompt >= model.cache_tokens) {
    return too_long("no room for output: the KV cache holds", model.cache_tokens);
  }
  const auto outside = std::find_if(prompt.begin(), prompt.end(), [&](TokenId token) {
    return token < 0 || token >= model.vocab_size;
  });
  if (outside != prompt.end()) {
    return InvalidField(field, "has token {}; this model's token ids are below {}", *outside,
                        model.vocab_size);
  }
  Request& engine = request.request;
  const auto room =
      static_cast<int32_t>(std::min(int64_t{model.max_model_len}, model.cache_tokens) - num_prompt);
  engine.answer_tokens_max =
      engine.answer_tokens_max == 0 ? room : std::min(engine.answer_tokens_max, room);
  if (engine.answer_tokens_min > engine.answer_tokens_max) {
    return InvalidField("output.min_tokens", "is {}; there is room for {} after the prompt",
                        engine.answer_tokens_min, engine.answer_tokens_max);
  }
  if (engine.prompt_logprobs >= 0) {
    // One entry is about 20 bytes: token id, value and the token's own bytes, with their tags.
    const int64_t bytes = num_prompt * (8 + 20 * (int64_t{engine.prompt_logprobs} + 1));
    if (bytes > limits.prompt_logprobs_bytes_max) {
      return InvalidField("output.prompt_logprobs",
                          "would take about {} bytes for {} tokens; at most {} are sent", bytes,
                          num_prompt, limits.prompt_logprobs_bytes_max);
    }
  }
  engine.prompt = std::move(prompt);
  return absl::OkStatus();
}

absl::StatusOr<CheckedRequest> CheckLoadPrompt(const v1::GetLoadRequest& message,
                                               const ServedModel& model,
                                               const RequestLimits& limits) {
  constexpr std::string_view kField = "token_ids.ids";
  CheckedRequest out;
  INCIPIT_RETURN_IF_ERROR(
      CheckBytes("cache_salt", message.cache_salt().size(), limits.cache_salt_bytes_max));
  out.cache_salt = message.cache_salt();
  INCIPIT_ASSIGN_OR_RETURN(std::vector<TokenId> tokens,
                           CheckTokens(kField, message.token_ids().ids(), model));
  out.request.answer_tokens_max = 1;
  INCIPIT_RETURN_IF_ERROR(SetPrompt(std::move(tokens), kField, model, limits, out));
  return out;
}

absl::StatusOr<std::vector<TokenId>> CheckDetokenizeRequest(const v1::DetokenizeRequest& message,
                                                            const ServedModel& model) {
  return CheckTokens("ids", message.ids(), model);
}

absl::Status CheckTenant(std::string_view tenant, const RequestLimits& limits) {
  constexpr std::string_view kField = "x-tenant-id";
  if (tenant.empty()) return InvalidField(kField, "is empty");
  INCIPIT_RETURN_IF_ERROR(CheckBytes(kField, tenant.size(), limits.tenant_bytes_max));
  const bool is_plain = std::all_of(tenant.begin(), tenant.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (is_plain) return absl::OkStatus();
  return InvalidField(kField, "has a byte that is no letter, digit, '.', '_' or '-'");
}

}  // namespace incipit
