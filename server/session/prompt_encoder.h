// Converts the prompt of a checked request to token ids. A conversation is first converted to text
// with the chat template.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/session/checked_request.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

// Converts prompts to token ids. Thread-safe. Every function takes time linear in the length of the
// text.
class PromptEncoder {
 public:
  // `tokenizer` and `chat_template` may be null. If `special_tokens_in_chat` is false, special
  // tokens in chat messages are treated as ordinary text. REQUIRES: `tokenizer` and `chat_template`
  // outlive the PromptEncoder.
  PromptEncoder(const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                bool special_tokens_in_chat, OutputFormats formats = {})
      : tokenizer_(tokenizer),
        chat_template_(chat_template),
        special_tokens_in_chat_(special_tokens_in_chat),
        formats_(formats) {}

  // Returns the formats of tool calls and reasoning in the output of a chat.
  const OutputFormats& formats() const { return formats_; }

  // The token ids of a prompt, and the name of the request field that contained the prompt.
  struct Encoded {
    std::vector<TokenId> tokens;
    std::string_view field;
    bool ends_in_reasoning = false;  // true if the prompt ends inside reasoning
  };
  // Returns the token ids of `request.prompt`. Moves token ids out of `request.prompt`.
  absl::StatusOr<Encoded> Encode(CheckedRequest& request, const ServedModel& model,
                                 const RequestLimits& limits, CheckWanted check_wanted) const;

  // Returns the token ids of `text`. REQUIRES: the tokenizer is not null.
  absl::StatusOr<std::vector<TokenId>> EncodeText(std::string_view text,
                                                  bool add_special_tokens) const;

  // Returns the text of the token ids `ids`. Returns INVALID_FIELD, about the field `field`, if an
  // id is not a token of the model or the text is longer than limits.detokenize_bytes_max.
  // REQUIRES: the tokenizer is not null.
  absl::StatusOr<std::string> DecodeIds(std::string_view field, const TokensDraft& ids,
                                        bool skip_special_tokens, const ServedModel& model,
                                        const RequestLimits& limits) const;

  // Returns the minimum number of tokens of any text with `num_bytes` bytes, or 0 if unknown.
  int64_t NumTokensMin(int64_t num_bytes) const;
  // Returns true if `prompt` contains a token that is not a special token. Returns false if there
  // is no tokenizer.
  bool ShowsText(std::span<const TokenId> prompt) const;

 private:
  // A callback that returns an error if the prompt text is certainly too long. The callback is
  // called before the text is tokenised.
  using CheckText = absl::FunctionRef<absl::Status(std::string_view text)>;
  absl::Status EncodeConversation(const Conversation& conversation, CheckText check_text,
                                  CheckWanted check_wanted, Encoded& out) const;

  const Tokenizer* tokenizer_;
  const ChatTemplate* chat_template_;
  const bool special_tokens_in_chat_;
  const OutputFormats formats_;
};

}  // namespace incipit
