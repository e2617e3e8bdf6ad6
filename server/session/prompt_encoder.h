// Converts a checked prompt to token ids: with the tokenizer, or with the chat template and then
// the tokenizer.
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

// Immutable. Every function is thread-safe and takes time linear in the length of the text.
class PromptEncoder {
 public:
  // `tokenizer` and `chat_template` may be null; otherwise they must outlive the encoder. If
  // `special_tokens_in_chat` is true, the text of a special token in a message of a client becomes
  // the special token. If false, the text of a special token is encoded as ordinary text.
  PromptEncoder(const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                bool special_tokens_in_chat)
      : tokenizer_(tokenizer),
        chat_template_(chat_template),
        special_tokens_in_chat_(special_tokens_in_chat) {}

  // The token ids of a prompt, and the name of the request field that holds the prompt.
  struct Encoded {
    std::vector<TokenId> tokens;
    std::string_view field;
  };
  // Returns the token ids of `request.prompt`. Moves token ids out of `request.prompt`.
  absl::StatusOr<Encoded> Encode(CheckedRequest& request, const ServedModel& model,
                                 const RequestLimits& limits, CheckWanted check_wanted) const;

  // Returns the token ids of `text`. REQUIRES: the tokenizer is not null.
  absl::StatusOr<std::vector<TokenId>> EncodeText(std::string_view text,
                                                  bool add_special_tokens) const;

  // Returns a lower bound of the number of tokens in a text of `num_bytes` bytes; 0 if unknown.
  int64_t NumTokensMin(int64_t num_bytes) const;
  // Returns true if the tokenizer is not null and `prompt` has a token that is not a special token.
  bool ShowsText(std::span<const TokenId> prompt) const;

 private:
  // A callback that returns an error if `text` is too long for a prompt. The callback is called
  // before the tokens of `text` are known.
  using CheckText = absl::FunctionRef<absl::Status(std::string_view text)>;
  absl::StatusOr<std::vector<TokenId>> EncodeConversation(const Conversation& conversation,
                                                          CheckText check_text,
                                                          CheckWanted check_wanted) const;

  const Tokenizer* tokenizer_;
  const ChatTemplate* chat_template_;
  const bool special_tokens_in_chat_;
};

}  // namespace incipit
