// The tokens that are found in the text as they are written, before the model sees it: special
// tokens such as <|im_start|>, and what else was added to a trained vocabulary.
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

// Strings to values; finds the longest string that a text begins with at some place.
class Trie {
 public:
  // The value that a string got first stays. REQUIRES: not empty.
  void Add(std::string_view string, int32_t value);
  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    size_t begin = 0, end = 0;
    int32_t value = -1;
  };
  // The first match at or behind `from`; of several that begin there, the longest.
  std::optional<Match> Find(std::string_view text, size_t from) const;

 private:
  struct Node {
    int32_t value = -1;
    std::vector<std::pair<unsigned char, int32_t>> children;
  };
  int32_t ChildOf(int32_t node, unsigned char byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<bool> is_first_ = std::vector<bool>(256);  // bytes that strings begin with
};

// Immutable after Create.
class AddedVocabulary {
 public:
  // `list` is the array `added_tokens`, null if there is none; `normalizer` may be null. A token
  // that the model knows keeps the model's id; others are numbered behind it, as the reference does
  // whatever ids the file gives them.
  static absl::StatusOr<AddedVocabulary> Create(const nlohmann::json* list, const BpeModel& model,
                                                const Normalizer* normalizer);

  std::optional<TokenId> IdOf(std::string_view content) const;
  // As it is decoded; null if it is not an added token.
  const std::string* TokenOf(TokenId id) const;
  bool IsSpecial(TokenId id) const;
  // What decoding without special tokens leaves out goes by the token's text.
  bool IsSpecialText(std::string_view token) const { return special_texts_.contains(token); }
  TokenId id_end() const { return id_end_; }
  // True if a token takes in the blanks around it.
  bool TakesBlanks() const;

  enum class Pass : uint8_t { kRaw, kNormalized };
  bool HasSpecial(Pass pass) const { return has_special_[static_cast<size_t>(pass)]; }

  struct Part {
    size_t begin = 0, end = 0;
    std::optional<TokenId> id = {};  // of the added token that is here
  };
  // Says whether [begin, end) is text in which special tokens are ordinary.
  using IsLiteral = absl::FunctionRef<bool(size_t begin, size_t end)>;
  using PartSink = absl::FunctionRef<absl::Status(const Part&)>;
  // The text as added tokens and what lies between them, in order.
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
  Trie tries_[2];  // by Pass; values are indices of tokens_
  bool has_special_[2] = {false, false};
  TokenId id_end_ = 0;
  CodePointMap word_characters_;  // filled if a token asks for them
};

}  // namespace incipit
