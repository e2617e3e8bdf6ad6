// The model of a tokenizer with byte-pair encoding (BPE): the vocabulary, the merges, and the
// tokens for unknown characters.
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

// The form of the words that a model encodes: text, or bytes. Both forms result in the same tokens.
// kBytes needs less memory.
enum class WordForm : uint8_t { kText, kBytes };

// The vocabulary and the merges of a model with byte-pair encoding (BPE). Immutable.
class BpeModel {
 public:
  // Creates the model from `model`, the object `model` of a tokenizer.json. If `prefer_bytes` is
  // set and the model supports bytes, word_form() is kBytes. Returns UNIMPLEMENTED if the object is
  // not a BPE model or uses dropout.
  static absl::StatusOr<BpeModel> Create(const JsonFields& model, bool prefer_bytes);

  std::optional<TokenId> IdOf(std::string_view token) const;
  // Returns the vocabulary entry (text) of token `id`. Returns null if the vocabulary does not
  // contain `id`.
  const std::string* TokenOf(TokenId id) const;
  size_t num_tokens() const { return ids_.size(); }
  TokenId id_end() const { return static_cast<TokenId>(tokens_.size()); }

  // Returns the form in which words must be passed to the model. A model with prefixes or suffixes
  // that mark the parts of a word always uses kText.
  WordForm word_form() const { return word_form_; }
  const MergeTable& merges() const { return merges_; }
  // Returns an object that checks whether two tokens can be neighbours in the encoding of a word.
  // Returns null if two different merges can make the same token.
  const PairCheck* pair_check() const { return pair_check_.get(); }

  // If the option ignore_merges of the model is set, returns the token whose text is `word`.
  // Returns nothing if no such token exists or the option is not set.
  std::optional<TokenId> WholeWord(std::string_view word) const;
  // Returns the token of a single `byte`. Returns nothing if word_form() is not kBytes, or if the
  // vocabulary has no token for `byte`.
  std::optional<TokenId> ByteToken(char byte) const {
    const TokenId id = byte_ids_[static_cast<uint8_t>(byte)];
    return word_form_ == WordForm::kBytes && id >= 0 ? std::optional(id) : std::nullopt;
  }
  // Returns true if word_form() is kBytes and the vocabulary has a token for every byte.
  bool has_all_bytes() const { return has_all_bytes_; }
  // Appends one token for each character of `word` to `ids`; does not merge tokens. Returns
  // INVALID_ARGUMENT if `word` has a character outside the vocabulary and the vocabulary does not
  // contain the unknown token (unk_token).
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
  // Maps the text of a token, as bytes, to the token id. Filled only if ignore_merges is set and
  // word_form_ is kBytes.
  IdMap ids_of_bytes_;
  // tokens_[id]: text of token `id`; empty if no token has this id.
  std::vector<std::string> tokens_;
  MergeTable merges_;
  std::unique_ptr<const PairCheck> pair_check_;
  // character_pages_[i] is for the characters [256 * i, 256 * (i + 1)): the index of their token
  // ids in `character_ids_`. The index is -1 if none of these characters has a token.
  std::vector<int32_t> character_pages_;
  // Token ids of single characters, in groups of 256 characters; -1 for a character without a
  // token.
  std::vector<TokenId> character_ids_;
  // byte_ids_[b]: token of the character that represents byte b in the byte alphabet
  // (byte_alphabet.h); -1 if no token exists.
  std::array<TokenId, 256> byte_ids_{};
  bool has_all_bytes_ = false;
  // byte_fallbacks_[b]: token whose text is the hexadecimal byte b, such as `<0x0A>`; -1 if no
  // token exists.
  std::array<TokenId, 256> byte_fallbacks_{};
};

}  // namespace incipit
