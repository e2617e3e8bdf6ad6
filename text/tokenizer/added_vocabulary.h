// Added tokens of a tokenizer: tokens that are found by their exact text before the BPE model
// encodes the rest of the text. Examples are special tokens such as <|im_start|>, and tokens that
// were added after training.
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

// A prefix tree of strings, each with an integer value. Find() finds the first occurrence of any of
// the strings in a text.
class Trie {
 public:
  // Adds `string` with the value `value`. If the tree already contains `string`, Add() does not
  // change its value. REQUIRES: `string` is not empty.
  void Add(std::string_view string, int32_t value);
  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    size_t begin = 0, end = 0;
    int32_t value = -1;
  };
  // Returns the first occurrence of any string that begins at or after the byte offset `from`. If
  // several strings begin at the same byte offset, returns the longest string.
  std::optional<Match> Find(std::string_view text, size_t from) const;

 private:
  struct Node {
    int32_t value = -1;
    std::vector<std::pair<unsigned char, int32_t>> children;
  };
  int32_t ChildOf(int32_t node, unsigned char byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  // is_first_[byte]: true if a string of the tree begins with `byte`.
  std::vector<bool> is_first_ = std::vector<bool>(256);
};

// The added tokens of a tokenizer. Immutable after Create().
class AddedVocabulary {
 public:
  // Creates the added vocabulary from `list`, the array `added_tokens` in tokenizer.json. The ids
  // in `list` must be distinct. `list` and `normalizer` may be null. As in Hugging Face tokenizers,
  // a token outside the vocabulary of `model` gets the next free id; its id in `list` is ignored.
  static absl::StatusOr<AddedVocabulary> Create(const nlohmann::json* list, const BpeModel& model,
                                                const Normalizer* normalizer);

  std::optional<TokenId> IdOf(std::string_view content) const;
  // Returns the decoded text of token `id`. Returns null if `id` is not an added token.
  const std::string* TokenOf(TokenId id) const;
  bool IsSpecial(TokenId id) const;
  // Returns true if `token` is the text of a special token. Decoding with skip_special_tokens omits
  // every token with the text of a special token.
  bool IsSpecialText(std::string_view token) const { return special_texts_.contains(token); }
  TokenId id_end() const { return id_end_; }
  // Returns true if some added token also covers blanks next to its text (options lstrip and rstrip
  // in tokenizer.json).
  bool TakesBlanks() const;

  enum class Pass : uint8_t { kRaw, kNormalized };
  bool HasSpecial(Pass pass) const { return has_special_[static_cast<size_t>(pass)]; }

  struct Part {
    size_t begin = 0, end = 0;
    // Id of the added token in [begin, end); empty if [begin, end) is ordinary text.
    std::optional<TokenId> id = {};
  };
  // A function that returns true if a special token at the byte range [begin, end) must be treated
  // as ordinary text.
  using IsLiteral = absl::FunctionRef<bool(size_t begin, size_t end)>;
  using PartSink = absl::FunctionRef<absl::Status(const Part&)>;
  // Splits `text` into added tokens and the ordinary text between added tokens. Passes all parts to
  // `sink` from left to right.
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
  // The texts of the added tokens: tries_[0] for the search before normalization, tries_[1] for the
  // search after normalization. The value of a text is the index of its token in `tokens_`.
  Trie tries_[2];
  bool has_special_[2] = {false, false};
  TokenId id_end_ = 0;
  // Maps word characters (such as letters) to 1. Filled only if some token has the option
  // single_word.
  CodePointMap word_characters_;
};

}  // namespace incipit
