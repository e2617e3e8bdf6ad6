// The added tokens of a tokenizer: strings such as <|im_start|> that become one token each. The
// tokenizer searches for added tokens before the BPE model encodes the rest of the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/json/json_fields.h"
#include "base/types.h"
#include "text/tokenizer/bpe_model.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/text_map.h"
#include "text/unicode/code_point_set.h"

namespace incipit {

inline constexpr size_t kAddedTokensMax = 1 << 16;
inline constexpr size_t kAddedTokenBytesMax = 1024;

// A prefix tree: a set of strings, each with an integer value. Find() finds the first string of the
// set in a text.
class Trie {
 public:
  // Adds `string` with the value `value`. Does nothing if the tree already contains `string`.
  // REQUIRES: `string` is not empty.
  void Add(std::string_view string, int32_t value);
  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    size_t begin = 0, end = 0;
    int32_t value = -1;
  };
  // Returns the first occurrence of a string of the tree at or after the byte offset `from`. If
  // several strings begin at the same byte, returns the longest.
  std::optional<Match> Find(std::string_view text, size_t from) const;

 private:
  struct Node {
    int32_t value = -1;
    std::vector<std::pair<unsigned char, int32_t>> children;
  };
  int32_t ChildOf(int32_t node, unsigned char byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  // is_first_[byte] is true if a string of the tree begins with `byte`.
  std::vector<bool> is_first_ = std::vector<bool>(256);
};

// The added tokens of a tokenizer. Immutable after Create().
class AddedVocabulary {
 public:
  // Creates the added tokens from `list`, the array `added_tokens` of tokenizer.json. The ids in
  // `list` must be distinct. `list` and `normalizer` may be null. As in Hugging Face tokenizers, a
  // token outside the vocabulary of `model` gets the next free id instead of its id in `list`.
  static absl::StatusOr<AddedVocabulary> Create(const nlohmann::json* list, const BpeModel& model,
                                                const Normalizer* normalizer);

  std::optional<TokenId> IdOf(std::string_view content) const;
  // Returns the decoded text of token `id`. Returns null if `id` is not an added token.
  const std::string* TokenOf(TokenId id) const;
  bool IsSpecial(TokenId id) const;
  // Returns true if `token` is the text of a special token. Decoding with skip_special_tokens omits
  // all tokens with such a text.
  bool IsSpecialText(std::string_view token) const { return special_texts_.contains(token); }
  TokenId id_end() const { return id_end_; }
  // Returns true if an added token also covers the blanks next to it (options lstrip and rstrip in
  // tokenizer.json).
  bool TakesBlanks() const;

  enum class Pass : uint8_t { kRaw, kNormalized };
  bool HasSpecial(Pass pass) const { return has_special_[static_cast<size_t>(pass)]; }

  struct Part {
    size_t begin = 0, end = 0;
    // Id of the added token in [begin, end). Absent if [begin, end) is ordinary text.
    std::optional<TokenId> id = {};
  };
  // Returns true if a special token at the byte range [begin, end) must be treated as ordinary
  // text.
  using IsLiteral = absl::FunctionRef<bool(size_t begin, size_t end)>;
  using PartSink = absl::FunctionRef<absl::Status(const Part&)>;
  // Splits `text` into added tokens and ordinary text. Passes all parts to `sink` from left to
  // right.
  absl::Status Split(Pass pass, std::string_view text, IsLiteral is_literal, PartSink sink) const;

 private:
  struct Token {
    TokenId id = -1;
    std::string content;
    std::string decoded;
    bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
  };

  static absl::StatusOr<Token> ReadToken(const JsonFields& fields, const Normalizer* normalizer);
  void IndexTokens();
  bool IsPartOfWord(std::string_view text, size_t begin, size_t end) const;

  std::vector<Token> tokens_;
  TextMap<size_t> index_of_content_;
  absl::flat_hash_map<TokenId, size_t> index_of_id_;
  TextSet special_texts_;
  // The texts of the added tokens, each mapped to the index of its token in `tokens_`. tries_[0] is
  // searched before the text is normalized, tries_[1] afterwards.
  Trie tries_[2];
  bool has_special_[2] = {false, false};
  TokenId id_end_ = 0;
  // Maps word characters (such as letters) to 1. Filled only if a token has the option single_word:
  // no word character may be next to the token.
  CodePointMap word_characters_;
};

}  // namespace incipit
