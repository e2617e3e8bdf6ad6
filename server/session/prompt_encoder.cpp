#include "server/session/prompt_encoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

// Maximum length of the part of a chat template's error message that a client receives, in bytes
// before escaping.
constexpr size_t kTemplateMessageBytesMax = 200;

// If `status` is an INVALID_ARGUMENT error of the tokenizer, returns an error about the request
// field `field` with the same message. Otherwise returns `status` unchanged.
absl::Status AboutField(const absl::Status& status, std::string_view field) {
  if (status.code() != absl::StatusCode::kInvalidArgument) return status;
  return FieldViolation(field, MessageOf(status));
}

// Returns the first kTemplateMessageBytesMax bytes of `message`, an error message of a chat
// template. Escapes the bytes, because the error message may contain data of the client.
std::string EscapedTemplateMessage(std::string_view message) {
  const bool is_cut = message.size() > kTemplateMessageBytesMax;
  return absl::CHexEscape(std::string(message.substr(0, kTemplateMessageBytesMax))) +
         (is_cut ? "..." : "");
}

// Cuts the prompt `rendered` after `message`, the content of the last message, so that the model
// continues this message. Like the option continue_final_message of the library Transformers, also
// works if the chat template has removed white space around `message`.
absl::Status CutAfterFinalMessage(std::string_view message, RenderedPrompt& rendered) {
  constexpr std::string_view kSpace = " \t\n\r\v\f";
  const std::string_view whole =
      message.substr(std::min(message.find_first_not_of(kSpace), message.size()));
  const std::string_view trimmed = whole.substr(0, whole.find_last_not_of(kSpace) + 1);
  const size_t begin = trimmed.empty() ? std::string::npos : rendered.text.rfind(trimmed);
  if (begin == std::string::npos) {
    return FieldViolation(
        "messages",
        "must not end with a message that the chat template leaves out of the prompt, "
        "because the model cannot continue this message",
        Reason::kTemplateRefused);
  }
  const bool keeps_end = std::string_view(rendered.text).substr(begin).starts_with(whole);
  const size_t end = begin + (keeps_end ? whole.size() : trimmed.size());
  rendered.text.resize(end);
  auto& ranges = rendered.literal_ranges;
  while (!ranges.empty() && ranges.back().begin >= end) ranges.pop_back();
  if (!ranges.empty()) ranges.back().end = std::min(ranges.back().end, end);
  return absl::OkStatus();
}

absl::Status TemplateError(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
      return Refuse(Reason::kNoChatTemplate, MessageOf(status));
    case absl::StatusCode::kUnimplemented:
      return Refuse(Reason::kTemplateUnsupported, MessageOf(status));
    default:
      if (status.code() != absl::StatusCode::kInvalidArgument) return status;
      return FieldViolation("messages", EscapedTemplateMessage(MessageOf(status)),
                            Reason::kTemplateRefused);
  }
}

}  // namespace

absl::StatusOr<PromptEncoder::Encoded> PromptEncoder::Encode(CheckedRequest& request,
                                                             const ServedModel& model,
                                                             const RequestLimits& limits,
                                                             CheckWanted check_wanted) const {
  Encoded out;
  const auto check_text = [&](std::string_view text) {
    return CheckPromptLength(NumTokensMin(static_cast<int64_t>(text.size())), /*is_exact=*/false,
                             out.field, model, limits);
  };
  if (const auto* const text = std::get_if<std::string>(&request.prompt)) {
    out.field = "text";
    INCIPIT_RETURN_IF_ERROR(check_text(*text));
    INCIPIT_ASSIGN_OR_RETURN(out.tokens, EncodeText(*text, request.add_special_tokens));
  } else if (const auto* const conversation = std::get_if<Conversation>(&request.prompt)) {
    out.field = "messages";
    INCIPIT_RETURN_IF_ERROR(EncodeConversation(*conversation, check_text, check_wanted, out));
  } else {
    out.field = "token_ids.ids";
    out.tokens = std::get<std::vector<TokenId>>(std::move(request.prompt));
  }
  return out;
}

absl::StatusOr<std::vector<TokenId>> PromptEncoder::EncodeText(std::string_view text,
                                                               bool add_special_tokens) const {
  EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  auto tokens = tokenizer_->Encode(text, options);
  if (!tokens.ok()) return AboutField(tokens.status(), "text");
  return tokens;
}

absl::Status PromptEncoder::EncodeConversation(const Conversation& conversation,
                                               CheckText check_text, CheckWanted check_wanted,
                                               Encoded& out) const {
  auto rendered = chat_template_->Render(conversation.variables);
  if (!rendered.ok()) return TemplateError(rendered.status());
  INCIPIT_RETURN_IF_ERROR(check_wanted());
  if (conversation.final_message) {
    INCIPIT_RETURN_IF_ERROR(CutAfterFinalMessage(*conversation.final_message, *rendered));
  }
  INCIPIT_RETURN_IF_ERROR(check_text(rendered->text));
  EncodeOptions options;
  options.add_special_tokens = false;  // the chat template has already added the special tokens
  if (!special_tokens_in_chat_) options.literal_ranges = rendered->literal_ranges;
  auto tokens = tokenizer_->Encode(rendered->text, options);
  if (!tokens.ok()) return AboutField(tokens.status(), "messages");
  out.tokens = *std::move(tokens);
  out.ends_in_reasoning =
      BeginsInReasoning(rendered->text, rendered->literal_ranges, formats_.reasoning);
  return absl::OkStatus();
}

absl::StatusOr<std::string> PromptEncoder::DecodeIds(std::string_view field, const TokensDraft& ids,
                                                     bool skip_special_tokens,
                                                     const ServedModel& model,
                                                     const RequestLimits& limits) const {
  INCIPIT_RETURN_IF_ERROR(CheckTokens(field, ids, model));
  // Limits the size of the text in bytes, because a short list of token ids may have a very long
  // text.
  const int64_t bytes_max = limits.detokenize_bytes_max;
  int64_t num_bytes = 0;
  for (const TokenId token : ids) {
    num_bytes += static_cast<int64_t>(tokenizer_->TokenLength(token));
    if (num_bytes <= bytes_max) continue;
    return WithBound(
        InvalidField(field,
                     "must be token ids of a text of at most {} bytes (detokenize-bytes-max)",
                     bytes_max),
        bytes_max);
  }
  return tokenizer_->Decode(ids, skip_special_tokens);
}

int64_t PromptEncoder::NumTokensMin(int64_t num_bytes) const {
  const auto bytes_max = tokenizer_ == nullptr ? std::nullopt : tokenizer_->token_bytes_max();
  return bytes_max ? num_bytes / static_cast<int64_t>(*bytes_max) : 0;
}

bool PromptEncoder::ShowsText(std::span<const TokenId> prompt) const {
  if (tokenizer_ == nullptr) return false;
  return std::any_of(prompt.begin(), prompt.end(),
                     [&](TokenId token) { return !tokenizer_->IsSpecial(token); });
}

}  // namespace incipit
