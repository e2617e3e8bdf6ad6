// The model of a byte-pair encoding (BPE): the vocabulary, the merges, and the tokens for
// characters outside the vocabulary.
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
inline constexpr size_t kMergesMax = 1 << 22;  // maximum number of merges of a model

// Form in which the model receives words: as text in the byte alphabet (byte_alphabet.h), or as the
// bytes for which the characters of the alphabet stand. Both forms result in the same tokens. The
// bytes take less memory.
enum class WordForm : uint8_t { kText, kBytes };

// The vocabulary and the merges of a BPE model. Hash maps find tokens by their text, as in Hugging
// Face tokenizers. Immutable.
class BpeModel {
 public:
  // Creates the model from `model`, the section of that name in tokenizer.json. Returns
  // UNIMPLEMENTED if the section is not a BPE model or uses dropout.
  static absl::StatusOr<BpeModel> Create(const JsonFields& model, bool prefer_bytes);

  std::optional<TokenId> IdOf(std::string_view token) const;
  // Returns the vocabulary entry of `id`. Returns null if the vocabulary does not contain `id`.
  const std::string* TokenOf(TokenId id) const;
  size_t num_tokens() const { return ids_.size(); }
  TokenId id_end() const { return static_cast<TokenId>(tokens_.size()); }

  // Returns the form in which the encoder passes words to the model. The form is kText if the model
  // marks the ends of words, because bytes cannot express the marks.
  WordForm word_form() const { return word_form_; }
  const MergeTable& merges() const { return merges_; }
  // Returns the check of neighbouring tokens (pair_check.h). Returns null if two different merges
  // can make the same token.
  const PairCheck* pair_check() const { return pair_check_.get(); }

  // Returns the token whose text is `word`. Returns nothing if there is no such token or if the
  // model does not prefer whole words to merges (ignore_merges).
  std::optional<TokenId> WholeWord(std::string_view word) const;
  // Returns the token of a single `byte`. Returns nothing if words are text or if the vocabulary
  // has no token for `byte`.
  std::optional<TokenId> ByteToken(char byte) const {
    const TokenId id = byte_ids_[static_cast<uint8_t>(byte)];
    return word_form_ == WordForm::kBytes && id >= 0 ? std::optional(id) : std::nullopt;
  }
  // Returns true if words are bytes and every byte has a token.
  bool has_all_bytes() const { return has_all_bytes_; }
  // Appends the tokens of the single characters of `word` to `ids`, without any merge. Returns
  // INVALID_ARGUMENT if `word` has an unknown character and the unknown token of the model is not
  // in the vocabulary.
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
  IdMap ids_of_bytes_;  // tokens of whole words, if ignore_merges is set and words are bytes
  std::vector<std::string> tokens_;  // by id: text of the token; empty if no token has the id
  MergeTable merges_;
  std::unique_ptr<const PairCheck> pair_check_;
  // Tokens of single characters, in pages of 256 code points. character_pages_[c / 256] is the
  // index in `character_ids_` of the first entry of the page, or -1. An entry is a token, or -1 for
  // none.
  std::vector<int32_t> character_pages_;
  std::vector<TokenId> character_ids_;
  // For each byte: the token of the character that stands for the byte, or -1 for none.
  std::array<TokenId, 256> byte_ids_{};
  bool has_all_bytes_ = false;
  std::array<TokenId, 256> byte_fallbacks_{};  // tokens `<0x00>` to `<0xFF>`, or -1
};

}  // namespace incipit
