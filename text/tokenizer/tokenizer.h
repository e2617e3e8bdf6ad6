// Converts text to token ids and token ids to text, as the tokenizer.json of a model defines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"

namespace incipit {

// A range [begin, end) of byte offsets in a text.
struct ByteRange {
  size_t begin = 0, end = 0;
};

struct EncodeOptions {
  // True: the post-processor adds its special tokens, such as a token at the beginning of the text.
  bool add_special_tokens = true;
  // Byte ranges in which special tokens are treated as ordinary text, such as the parts of a chat
  // prompt that a client wrote. REQUIRES: the ranges are in ascending order and do not overlap.
  std::span<const ByteRange> literal_ranges = {};
  // False: special tokens in the text are treated as ordinary text.
  bool parse_special_tokens = true;
};

// Settings of a tokenizer that are not in tokenizer.json, but in other files of the model folder
// (see tokenizer_config.h).
struct TokenizerConfig {
  // Texts of special tokens. The key is the name that chat templates use, such as bos_token.
  std::map<std::string, std::string, std::less<>> special_tokens;
  std::vector<std::string> additional_special_tokens;
  // The chat template for conversations without tools. If the model has several named chat
  // templates, this is the template `default`.
  std::optional<std::string> chat_template;
  // The chat template for conversations with tools: the template named `tool_use`. Absent if the
  // model has no such template.
  std::optional<std::string> tool_chat_template;

  bool has_chat_template() const { return chat_template || tool_chat_template; }
};

// Encodes text as tokens and decodes tokens to text, for one model. Immutable. All functions are
// thread-safe.
class Tokenizer {
 public:
  // Reads tokenizer.json and the other tokenizer files in `folder` (see tokenizer_config.h).
  // Returns NOT_FOUND if tokenizer.json does not exist. Returns INVALID_ARGUMENT for an invalid
  // file, and UNIMPLEMENTED for an unsupported feature. The error message names the file and the
  // field.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& folder);
  // Creates a tokenizer from the contents of a tokenizer.json, without the other files of a model
  // folder. Returns the same errors as Load(), except NOT_FOUND.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(std::string_view tokenizer_json);

  ~Tokenizer();

  // Returns the token ids of `text`. The time is linear in the length of `text`. Returns
  // INVALID_ARGUMENT if `text` is not valid UTF-8, or if a regular expression of the tokenizer
  // takes too many steps on `text`.
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                              const EncodeOptions& options) const;

  // Decodes the tokens `ids` to text. U+FFFD replaces bytes that are not valid UTF-8, as in Hugging
  // Face tokenizers. Ignores unknown ids.
  std::string Decode(std::span<const TokenId> ids, bool skip_special_tokens) const;

  // Returns the bytes that token `id` adds to an output that already has tokens. The bytes need not
  // be valid UTF-8. Returns an empty string for an unknown id.
  std::string TokenBytes(TokenId id) const;

  // Returns the length in bytes of the text of token `id` in the vocabulary: about the number of
  // bytes that `id` adds to a text. Returns 0 for an unknown id.
  size_t TokenLength(TokenId id) const;

  // Returns 1 plus the largest token id.
  int32_t vocab_size() const;
  // Returns the maximum length in bytes of a text that Encode() can represent by one token. Returns
  // nothing if no maximum is known, for example because the tokenizer removes parts of the text.
  std::optional<size_t> token_bytes_max() const;
  bool IsSpecial(TokenId id) const;
  std::optional<TokenId> IdOf(std::string_view token) const;
  const TokenizerConfig& config() const;

 private:
  friend class Detokenizer;
  class Pipeline;
  explicit Tokenizer(std::unique_ptr<Pipeline> pipeline);
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Build(std::string_view tokenizer_json,
                                                          TokenizerConfig config);
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace incipit
