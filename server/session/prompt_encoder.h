// A checked prompt becomes token ids: by the tokenizer, or by the chat template and the tokenizer.
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

// Immutable; every function is thread-safe and takes time linear in the text.
class PromptEncoder {
 public:
  // Both may be null, and outlive the encoder otherwise. With `special_tokens_in_chat`, special
  // tokens that a client writes into a message count as such.
  PromptEncoder(const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                bool special_tokens_in_chat)
      : tokenizer_(tokenizer),
        chat_template_(chat_template),
        special_tokens_in_chat_(special_tokens_in_chat) {}

  // The ids of `request.prompt`, which is moved from, and the field they came from.
  struct Encoded {
    std::vector<TokenId> tokens;
    std::string_view field;
  };
  // PROMPT_TOO_LONG without the work if a text is longer than any prompt.
  absl::StatusOr<Encoded> Encode(CheckedRequest& request, const ServedModel& model,
                                 const RequestLimits& limits, CheckWanted check_wanted) const;

  // REQUIRES: a tokenizer.
  absl::StatusOr<std::vector<TokenId>> EncodeText(std::string_view text,
                                                  bool add_special_tokens) const;

  // A number of tokens that no text of `num_bytes` bytes falls short of.
  int64_t NumTokensMin(int64_t num_bytes) const;
  // True if some token of `prompt` has text of its own.
  bool ShowsText(std::span<const TokenId> prompt) const;

 private:
  // An error of the length of a text before its tokens are known.
  using CheckText = absl::FunctionRef<absl::Status(std::string_view text)>;
  absl::StatusOr<std::vector<TokenId>> EncodeConversation(const Conversation& conversation,
                                                          CheckText check_text,
                                                          CheckWanted check_wanted) const;

  const Tokenizer* tokenizer_;
  const ChatTemplate* chat_template_;
  const bool special_tokens_in_chat_;
};

}  // namespace incipit
