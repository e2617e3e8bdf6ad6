// Added tokens: tokens that are found literally in the text before the model encodes the rest.
// Examples are special tokens such as <|im_start|>, and tokens added after training.
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

// Prefix tree that maps strings to values and finds the first occurrence of any string in a text.
class Trie {
 public:
  // Adds `string` with `value`. If `string` was added before, the earlier value stays. REQUIRES:
  // `string` is not empty.
  void Add(std::string_view string, int32_t value);
  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    size_t begin = 0, end = 0;
    int32_t value = -1;
  };
  // Returns the first match that begins at or after `from`. If several strings match at the same
  // position, the longest match is returned.
  std::optional<Match> Find(std::string_view text, size_t from) const;

 private:
  struct Node {
    int32_t value = -1;
    std::vector<std::pair<unsigned char, int32_t>> children;
  };
  int32_t ChildOf(int32_t node, unsigned char byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<bool> is_first_ = std::vector<bool>(256);  // by byte: true if a string begins so
};

// The added tokens of a tokenizer. Immutable after Create().
class AddedVocabulary {
 public:
  // Creates the vocabulary from `list`, the array `added_tokens`; `list` is null if the array is
  // missing. `normalizer` may be null. A token in the vocabulary of `model` keeps the id of
  // `model`. Every other token gets the next id after the ids of `model`, as in Hugging Face
  // tokenizers. The ids in `list` must differ from each other and are not used otherwise.
  static absl::StatusOr<AddedVocabulary> Create(const nlohmann::json* list, const BpeModel& model,
                                                const Normalizer* normalizer);

  std::optional<TokenId> IdOf(std::string_view content) const;
  // Returns the text that token `id` decodes to. Returns null if `id` is not an added token.
  const std::string* TokenOf(TokenId id) const;
  bool IsSpecial(TokenId id) const;
  // Returns true if decoding without special tokens must omit `token`. The test uses the text of
  // the token, not the id.
  bool IsSpecialText(std::string_view token) const { return special_texts_.contains(token); }
  TokenId id_end() const { return id_end_; }
  // Returns true if some added token also covers the blanks before or after its text (lstrip,
  // rstrip).
  bool TakesBlanks() const;

  enum class Pass : uint8_t { kRaw, kNormalized };
  bool HasSpecial(Pass pass) const { return has_special_[static_cast<size_t>(pass)]; }

  struct Part {
    size_t begin = 0, end = 0;
    std::optional<TokenId> id = {};  // id of the added token in [begin, end), if any
  };
  // Returns true if a special token in [begin, end) must be treated as ordinary text.
  using IsLiteral = absl::FunctionRef<bool(size_t begin, size_t end)>;
  using PartSink = absl::FunctionRef<absl::Status(const Part&)>;
  // Splits `text` into added tokens and the parts between added tokens. Passes all tokens and parts
  // to `sink` in order.
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
  Trie tries_[2];  // indexed by Pass; the values are indices of tokens_
  bool has_special_[2] = {false, false};
  TokenId id_end_ = 0;
  CodePointMap word_characters_;  // characters of words; filled only if a token has single_word
};

}  // namespace incipit
