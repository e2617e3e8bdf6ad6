#include "server/session/prompt_encoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "server/session/request_error.h"

namespace incipit {
namespace {

// Maximum number of bytes of an error message of a chat template, before escaping.
constexpr size_t kTemplateMessageBytesMax = 200;

// Returns an INVALID_ARGUMENT error of the tokenizer with the name `field` added. Returns any other
// `status` unchanged.
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
    INCIPIT_ASSIGN_OR_RETURN(out.tokens, EncodeText(*text, /*add_special_tokens=*/true));
  } else if (const auto* const conversation = std::get_if<Conversation>(&request.prompt)) {
    out.field = "messages";
    INCIPIT_ASSIGN_OR_RETURN(out.tokens,
                             EncodeConversation(*conversation, check_text, check_wanted));
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

absl::StatusOr<std::vector<TokenId>> PromptEncoder::EncodeConversation(
    const Conversation& conversation, CheckText check_text, CheckWanted check_wanted) const {
  const auto rendered = chat_template_->Render(conversation.variables);
  if (!rendered.ok()) return TemplateError(rendered.status());
  INCIPIT_RETURN_IF_ERROR(check_wanted());
  INCIPIT_RETURN_IF_ERROR(check_text(rendered->text));
  EncodeOptions options;
  options.add_special_tokens = false;  // the chat template has already added the special tokens
  if (!special_tokens_in_chat_) options.literal_ranges = rendered->literal_ranges;
  auto tokens = tokenizer_->Encode(rendered->text, options);
  if (!tokens.ok()) return AboutField(tokens.status(), "messages");
  return tokens;
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
