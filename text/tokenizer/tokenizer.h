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
  bool add_special_tokens = true;  // adds the tokens of the post-processor, such as BOS
  // Ranges of the text in which special tokens are ordinary text: the parts of a prompt that a
  // client wrote into a chat message. A special token is recognised only outside of
  // `literal_ranges`. REQUIRES: `literal_ranges` is ascending and without overlaps.
  std::span<const ByteRange> literal_ranges = {};
  bool parse_special_tokens = true;  // false: special tokens are ordinary text in the whole text
};

// The settings from the other files beside tokenizer.json in the folder of a model.
// tokenizer_config.h lists these files.
struct TokenizerConfig {
  // Texts of special tokens. The key is the name of the token in chat templates: bos_token,
  // pad_token, image_token, ...
  std::map<std::string, std::string, std::less<>> special_tokens;
  std::vector<std::string> additional_special_tokens;
  // The chat template for conversations without tools: the template named `default` if the folder
  // has several named templates.
  std::optional<std::string> chat_template;
  // The chat template for conversations with tools: the template named `tool_use`.
  std::optional<std::string> tool_chat_template;

  bool has_chat_template() const { return chat_template || tool_chat_template; }
};

// Encodes and decodes text with the tokenizer of one model. Immutable after Load(); every method is
// thread-safe.
class Tokenizer {
 public:
  // Reads tokenizer.json in `folder`, and the files for TokenizerConfig if they exist. Returns
  // NOT_FOUND if tokenizer.json does not exist. Returns INVALID_ARGUMENT if a file is wrong, and
  // UNIMPLEMENTED if a file uses an unsupported feature; the message names the file and the part.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& folder);
  // Creates a tokenizer from the text of a tokenizer.json, with an empty TokenizerConfig. Returns
  // errors like Load().
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(std::string_view tokenizer_json);

  ~Tokenizer();

  // Returns the token ids of `text`, in time linear in the length of `text`. Returns
  // INVALID_ARGUMENT if `text` is not UTF-8, or if matching a regular expression of the tokenizer
  // exceeds its limits.
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                              const EncodeOptions& options) const;

  // Returns the text of `ids`. Bytes that are not valid UTF-8 become U+FFFD, as in Hugging Face
  // tokenizers. An unknown id adds no text.
  std::string Decode(std::span<const TokenId> ids, bool skip_special_tokens) const;

  // Returns the bytes that token `id` adds inside an output. A byte-level token returns its bytes,
  // and a leading space is kept. Returns an empty string for an unknown id.
  std::string TokenBytes(TokenId id) const;

  // Returns the length in bytes of the vocabulary entry of token `id`: an estimate of the number of
  // bytes of text. Returns 0 for an unknown id.
  size_t TokenLength(TokenId id) const;

  int32_t vocab_size() const;  // largest token id plus 1
  // Returns the maximum number of bytes of text that one token of Encode() can cover. Returns
  // nothing if there is no limit, for example because a part of the tokenizer drops text.
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
