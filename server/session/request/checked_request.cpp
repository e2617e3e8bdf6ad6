#include "server/session/request/checked_request.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "server/session/request/field_checks.h"
#include "server/session/request/option_checks.h"

namespace incipit {
namespace {

constexpr size_t kModelNameBytesMax = 256;

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

absl::Status CheckCanChat(const ServedModel& model) {
  if (!model.has_tokenizer) {
    return Refuse(Reason::kNoTokenizer, "Chat needs a tokenizer, and this model has none");
  }
  if (!model.has_chat_template) {
    return Refuse(Reason::kNoChatTemplate, "Chat needs a chat template, and this model has none");
  }
  return absl::OkStatus();
}

absl::Status CheckPromptOf(RequestDraft& draft, const ServedModel& model,
                           const RequestLimits& limits, CheckWanted check_wanted,
                           CheckedRequest& out) {
  if (auto* const text = std::get_if<std::string>(&draft.prompt)) {
    if (!model.has_tokenizer) {
      return Refuse(
          Reason::kNoTokenizer,
          "the field text needs a tokenizer, and this model has none; send token_ids instead");
    }
    if (text->empty()) return InvalidField("text", "is empty");
    out.prompt = std::move(*text);
    out.add_special_tokens = draft.add_special_tokens;
  } else if (auto* const ids = std::get_if<TokensDraft>(&draft.prompt)) {
    if (ids->empty()) return InvalidField("token_ids", "is empty");
    INCIPIT_RETURN_IF_ERROR(CheckTokens("token_ids.ids", *ids, model));
    out.prompt = std::move(*ids);
  } else if (auto* const messages = std::get_if<ConversationDraft>(&draft.prompt)) {
    INCIPIT_ASSIGN_OR_RETURN(out.prompt,
                             CheckConversation(std::move(*messages), limits, check_wanted));
  } else {
    return InvalidField("prompt", "is missing; set text or token_ids");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckModelName(std::string_view name, const ServedModel& model) {
  if (name.empty() || model.HasName(name)) return absl::OkStatus();
  INCIPIT_RETURN_IF_ERROR(CheckBytes("model", name.size(), kModelNameBytesMax));
  return Refuse(
      Reason::kModelNotFound,
      fmt::format("the requested model is not served; this server serves \"{}\"", model.name));
}

absl::Status CheckLabel(std::string_view label, const RequestLimits& limits) {
  INCIPIT_RETURN_IF_ERROR(CheckBytes("request_id", label.size(), limits.request_id_bytes_max));
  if (IsPrintable(label)) return absl::OkStatus();
  return InvalidField("request_id", "has a byte that is not printable ASCII");
}

bool ServedModel::HasName(std::string_view other) const {
  return other == name || std::ranges::find(aliases, other) != aliases.end();
}

absl::StatusOr<CheckedRequest> CheckDraft(RequestDraft draft, const ServedModel& model,
                                          const RequestLimits& limits, CheckWanted check_wanted) {
  if (std::holds_alternative<ConversationDraft>(draft.prompt)) {
    INCIPIT_RETURN_IF_ERROR(CheckCanChat(model));
  }
  CheckedRequest out;
  INCIPIT_RETURN_IF_ERROR(CheckLabel(draft.label, limits));
  INCIPIT_RETURN_IF_ERROR(CheckModelName(draft.model, model));
  INCIPIT_RETURN_IF_ERROR(CheckSampling(draft.sampling, model, limits, out));
  INCIPIT_RETURN_IF_ERROR(CheckOutput(std::move(draft.output), model, limits, out));
  INCIPIT_RETURN_IF_ERROR(CheckCache(std::move(draft.cache), limits, out));
  out.label = std::move(draft.label);
  out.request.priority = std::clamp(draft.priority, limits.priority_min, limits.priority_max);
  INCIPIT_RETURN_IF_ERROR(CheckPromptOf(draft, model, limits, check_wanted, out));
  return out;
}

absl::Status CheckPromptLength(int64_t num_tokens, bool is_exact, std::string_view field,
                               const ServedModel& model, const RequestLimits& limits) {
  const auto too_long = [&](std::string_view why, int64_t bound) {
    return WithBound(FieldViolation(field,
                                    fmt::format("has {} tokens{}; {} ({} tokens)", num_tokens,
                                                is_exact ? "" : " or more", why, bound),
                                    Reason::kPromptTooLong),
                     bound);
  };
  if (limits.prompt_tokens_max > 0 && num_tokens > limits.prompt_tokens_max) {
    return too_long("a prompt must not be longer than prompt-tokens-max", limits.prompt_tokens_max);
  }
  if (num_tokens > model.max_model_len) {
    return too_long("a prompt must fit into this model's context", model.max_model_len);
  }
  if (num_tokens == model.max_model_len) {
    return too_long("the prompt leaves no room for output in this model's context",
                    model.max_model_len);
  }
  if (num_tokens >= model.cache_tokens) {
    return too_long("the prompt leaves no room for output in the KV cache", model.cache_tokens);
  }
  return absl::OkStatus();
}

absl::Status SetPrompt(std::vector<TokenId> prompt, std::string_view field,
                       const ServedModel& model, const RequestLimits& limits,
                       CheckedRequest& request) {
  if (prompt.empty()) return InvalidField(field, "has no tokens");
  const auto num_prompt = static_cast<int64_t>(prompt.size());
  INCIPIT_RETURN_IF_ERROR(CheckPromptLength(num_prompt, /*is_exact=*/true, field, model, limits));
  const auto outside = std::find_if(prompt.begin(), prompt.end(), [&](TokenId token) {
    return token < 0 || token >= model.vocab_size;
  });
  if (outside != prompt.end()) {
    return InvalidField(field, "contains token id {}; this model's token ids are below {}",
                        *outside, model.vocab_size);
  }
  Request& engine = request.request;
  const auto room =
      static_cast<int32_t>(std::min(int64_t{model.max_model_len}, model.cache_tokens) - num_prompt);
  engine.output_tokens_max =
      engine.output_tokens_max == 0 ? room : std::min(engine.output_tokens_max, room);
  if (engine.output_tokens_min > engine.output_tokens_max) {
    return WithBound(InvalidField("output.min_tokens",
                                  "is {}; after the prompt, there is room for {} output tokens",
                                  engine.output_tokens_min, engine.output_tokens_max),
                     engine.output_tokens_max);
  }
  if (engine.prompt_logprobs >= 0) {
    // Estimated size in bytes of the log probabilities: 8 bytes for each prompt token, and 20 bytes
    // for each log probability (token id, value, text of the token and protobuf tags).
    const int64_t bytes = num_prompt * (8 + 20 * (int64_t{engine.prompt_logprobs} + 1));
    if (bytes > limits.prompt_logprobs_bytes_max) {
      return WithBound(
          InvalidField("output.prompt_logprobs",
                       "needs about {} bytes for {} prompt tokens; at most {} bytes are allowed",
                       bytes, num_prompt, limits.prompt_logprobs_bytes_max),
          limits.prompt_logprobs_bytes_max);
    }
  }
  engine.prompt = std::move(prompt);
  return absl::OkStatus();
}

absl::StatusOr<CheckedRequest> CheckPrompt(TokensDraft ids, std::string salt,
                                           const ServedModel& model, const RequestLimits& limits) {
  constexpr std::string_view kField = "token_ids.ids";
  CheckedRequest out;
  INCIPIT_RETURN_IF_ERROR(CheckBytes("cache_salt", salt.size(), limits.cache_salt_bytes_max));
  out.cache_salt = std::move(salt);
  INCIPIT_RETURN_IF_ERROR(CheckTokens(kField, ids, model));
  out.request.output_tokens_max = 1;
  INCIPIT_RETURN_IF_ERROR(SetPrompt(std::move(ids), kField, model, limits, out));
  return out;
}

absl::Status CheckTokens(std::string_view field, const TokensDraft& ids, const ServedModel& model) {
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<uint32_t>(ids[i]);
    if (id < static_cast<uint32_t>(model.vocab_size)) continue;
    return WithBound(
        InvalidField(fmt::format("{}[{}]", field, i), "is {}; this model's token ids are below {}",
                     id, model.vocab_size),
        model.vocab_size - 1);
  }
  return absl::OkStatus();
}

absl::Status CheckTenant(std::string_view tenant, const RequestLimits& limits) {
  if (tenant.empty()) return InvalidField(kTenantField, "is empty");
  INCIPIT_RETURN_IF_ERROR(CheckBytes(kTenantField, tenant.size(), limits.tenant_bytes_max));
  const bool is_plain = std::all_of(tenant.begin(), tenant.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (is_plain) return absl::OkStatus();
  return InvalidField(kTenantField, "has a byte that is not a letter, a digit, '.', '_' or '-'");
}

absl::StatusOr<std::string> TenantFrom(size_t num_values, std::string_view value,
                                       const RequestLimits& limits) {
  if (num_values == 0) return std::string(kDefaultTenant);
  if (num_values > 1) return InvalidField(kTenantField, "occurs more than once");
  INCIPIT_RETURN_IF_ERROR(CheckTenant(value, limits));
  return std::string(value);
}

void SetTenant(std::string_view tenant, bool is_isolated, std::string_view salt, Request& request) {
  const auto name = is_isolated ? std::optional<std::string_view>(tenant) : std::nullopt;
  request.cache_namespace = MakeCacheNamespace(name, salt);
  request.tenant = TenantDigest(tenant);
}

}  // namespace incipit
