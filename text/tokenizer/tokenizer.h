// Text to token ids and back, as a model's tokenizer.json defines it.
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

// Half open, in bytes.
struct ByteRange {
  size_t begin = 0, end = 0;
};

struct EncodeOptions {
  bool add_special_tokens = true;  // what the post-processor adds, such as BOS
  // Ranges of the text in which special tokens are ordinary text: what a client wrote into a chat
  // message. Ascending, not overlapping. A special token is recognised only outside of them.
  std::span<const ByteRange> literal_ranges = {};
  bool parse_special_tokens = true;  // false: the whole text is literal
};

// What other files of a model's folder say beside tokenizer.json (see tokenizer_config.h).
struct TokenizerConfig {
  // By the names that chat templates know them by: bos_token, pad_token, image_token, ...
  std::map<std::string, std::string, std::less<>> special_tokens;
  std::vector<std::string> additional_special_tokens;
  std::optional<std::string> chat_template;       // of several named ones, `default`
  std::optional<std::string> tool_chat_template;  // the one named `tool_use`

  bool has_chat_template() const { return chat_template || tool_chat_template; }
};

// Immutable after Load; every method is thread-safe.
class Tokenizer {
 public:
  // Reads tokenizer.json and, where they are, the files beside it that TokenizerConfig comes from.
  // NOT_FOUND without tokenizer.json; INVALID_ARGUMENT or UNIMPLEMENTED naming the file and the
  // part of it that is wrong or not supported.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& folder);
  // The same from the text of tokenizer.json alone.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(std::string_view tokenizer_json);

  ~Tokenizer();

  // INVALID_ARGUMENT if the text is not UTF-8, or if a regular expression of the tokenizer gives up
  // on it. Linear in the length of the text.
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                              const EncodeOptions& options) const;

  // Bytes that are no UTF-8 become U+FFFD, as the reference decodes. Unknown ids decode to nothing.
  std::string Decode(std::span<const TokenId> ids, bool skip_special_tokens) const;

  // A token's own bytes as it stands inside an answer (byte-level tokens as bytes, a leading space
  // kept); empty for an unknown id.
  std::string TokenBytes(TokenId id) const;

  // About how many bytes of text a token stands for: those of its name in the vocabulary.
  size_t TokenLength(TokenId id) const;

  int32_t vocab_size() const;  // one more than the largest id
  // The most bytes of text that one token of Encode stands for; nothing if there is no bound, since
  // a part of the tokenizer may drop text.
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
