// What a byte-pair encoding knows: its vocabulary, its merges, and what it does with characters
// that it does not know.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"
#include "base/types.h"
#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/pair_check.h"
#include "text/tokenizer/text_map.h"

namespace incipit {

inline constexpr TokenId kTokenIdMax = (1 << 24) - 1;
inline constexpr size_t kMergesMax = 1 << 22;

// How words reach the model: as text, or as bytes that stand for characters of the byte alphabet.
// Both mean the same; bytes are shorter.
enum class WordForm : uint8_t { kText, kBytes };

// The reference keeps tokens in hash maps by their text; so does this. Immutable.
class BpeModel {
 public:
  // `model` is the section of that name. UNIMPLEMENTED for another kind of model or for dropout.
  static absl::StatusOr<BpeModel> Create(const JsonFields& model, bool prefer_bytes);

  std::optional<TokenId> IdOf(std::string_view token) const;
  // Null for an id that the vocabulary does not have.
  const std::string* TokenOf(TokenId id) const;
  size_t num_tokens() const { return ids_.size(); }
  TokenId id_end() const { return static_cast<TokenId>(tokens_.size()); }

  // For the encoder. kText if the model marks the ends of words, which bytes cannot express.
  WordForm word_form() const { return word_form_; }
  const MergeTable& merges() const { return merges_; }
  // Null if the order of the merges does not allow it.
  const PairCheck* pair_check() const { return pair_check_.get(); }

  // The token that is the whole word, where the model prefers that over merging.
  std::optional<TokenId> WholeWord(std::string_view word) const;
  // The token that is one byte of a word; nothing if words are text or there is none.
  std::optional<TokenId> ByteToken(char byte) const {
    const TokenId id = byte_ids_[static_cast<uint8_t>(byte)];
    return word_form_ == WordForm::kBytes && id >= 0 ? std::optional(id) : std::nullopt;
  }
  // True if words are bytes and each byte has a token.
  bool has_all_bytes() const { return has_all_bytes_; }
  // The word's characters as tokens, before any merge. INVALID_ARGUMENT for an unknown character if
  // the model's unknown token is not in its vocabulary.
  absl::Status AppendCharacters(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  class Unknown;
  struct Options {
    std::optional<std::string> unk_token;
    std::string continuing_subword_prefix, end_of_word_suffix;
    bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
  };

  BpeModel() = default;
  absl::Status ReadOptions(const JsonFields& model);
  absl::Status ReadVocabulary(const JsonFields& model);
  absl::Status ReadMerges(const JsonFields& model);
  absl::Status AddMerge(std::string_view left, std::string_view right, const std::string& path);
  void IndexCharacters();
  std::optional<TokenId> CharacterId(char32_t character) const;
  absl::Status AppendBytes(std::string_view word, std::vector<TokenId>& ids) const;
  absl::Status AppendMarkedCharacters(std::string_view word, std::vector<TokenId>& ids) const;

  using IdMap = TextMap<TokenId>;

  Options options_;
  WordForm word_form_ = WordForm::kText;
  IdMap ids_;
  IdMap ids_of_bytes_;               // of whole words, if ignore_merges and words are bytes
  std::vector<std::string> tokens_;  // by id; empty where no token has the id
  MergeTable merges_;
  std::unique_ptr<const PairCheck> pair_check_;
  // Tokens of one character, by code point, in pages of 256; -1 where there is none.
  std::vector<int32_t> character_pages_;
  std::vector<TokenId> character_ids_;
  std::array<TokenId, 256> byte_ids_{};  // of the characters that stand for the bytes, or -1
  bool has_all_bytes_ = false;
  std::array<TokenId, 256> byte_fallbacks_{};  // of `<0x00>` to `<0xFF>`, or -1
};

}  // namespace incipit
