// Converts the prompt of a checked request to token ids. A conversation is first converted to text
// with the chat template.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/session/request/checked_request.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

// Converts prompts to token ids. Thread-safe. The time of every function is linear in the length of
// the text.
class PromptEncoder {
 public:
  // `tokenizer` and `chat_template` may be null. If `special_tokens_in_chat` is false, special
  // tokens in chat messages are ordinary text. REQUIRES: `tokenizer` and `chat_template` outlive
  // the PromptEncoder.
  PromptEncoder(const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                bool special_tokens_in_chat, OutputFormats formats = {})
      : tokenizer_(tokenizer),
        chat_template_(chat_template),
        special_tokens_in_chat_(special_tokens_in_chat),
        formats_(formats) {}

  // Returns the formats in which the model writes tool calls and reasoning.
  const OutputFormats& formats() const { return formats_; }

  // Token ids of a prompt, and the name of the request field with the prompt.
  struct Encoded {
    std::vector<TokenId> tokens;
    std::string_view field;
    // true if the prompt ends inside reasoning, so the output begins with reasoning
    bool ends_in_reasoning = false;
  };
  // Returns the token ids of `request.prompt`. If `request.prompt` contains token ids, moves them
  // out of `request`.
  absl::StatusOr<Encoded> Encode(CheckedRequest& request, const ServedModel& model,
                                 const RequestLimits& limits, CheckWanted check_wanted) const;

  // Returns the token ids of `text`. REQUIRES: the tokenizer is not null.
  absl::StatusOr<std::vector<TokenId>> EncodeText(std::string_view text,
                                                  bool add_special_tokens) const;

  // Returns the text of the token ids `ids`. Returns INVALID_FIELD if an id is not a token of
  // `model`, or if the text has more than limits.detokenize_bytes_max bytes. The error names the
  // request field `field`. REQUIRES: the tokenizer is not null.
  absl::StatusOr<std::string> DecodeIds(std::string_view field, const TokensDraft& ids,
                                        bool skip_special_tokens, const ServedModel& model,
                                        const RequestLimits& limits) const;

  // Returns a lower bound for the number of tokens of any text of `num_bytes` bytes, or 0 if the
  // bound is unknown.
  int64_t NumTokensMin(int64_t num_bytes) const;
  // Returns true if `prompt` contains a token that is not a special token. Returns false if there
  // is no tokenizer.
  bool ShowsText(std::span<const TokenId> prompt) const;

 private:
  // A callback that checks the length of `text`, the text of a prompt, before the text is
  // tokenised. Returns an error if the prompt certainly has too many tokens.
  using CheckText = absl::FunctionRef<absl::Status(std::string_view text)>;
  absl::Status EncodeConversation(const Conversation& conversation, CheckText check_text,
                                  CheckWanted check_wanted, Encoded& out) const;

  const Tokenizer* tokenizer_;
  const ChatTemplate* chat_template_;
  const bool special_tokens_in_chat_;
  const OutputFormats formats_;
};

}  // namespace incipit
