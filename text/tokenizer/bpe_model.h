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

// The form of the words that the BPE model encodes: text, or bytes. Both forms result in the same
// tokens, but kBytes needs less memory.
enum class WordForm : uint8_t { kText, kBytes };

// The vocabulary and the merges of a model with byte-pair encoding (BPE). Immutable.
class BpeModel {
 public:
  // Creates the model from the object `model` of a tokenizer.json. If `prefer_bytes` is set,
  // word_form() is kBytes unless the model supports only text. Returns UNIMPLEMENTED if the object
  // is not a BPE model or uses dropout.
  static absl::StatusOr<BpeModel> Create(const JsonFields& model, bool prefer_bytes);

  std::optional<TokenId> IdOf(std::string_view token) const;
  // Returns the text of token `id` in the vocabulary. Returns null if the vocabulary does not
  // contain `id`.
  const std::string* TokenOf(TokenId id) const;
  size_t num_tokens() const { return ids_.size(); }
  TokenId id_end() const { return static_cast<TokenId>(tokens_.size()); }

  // Returns the form in which words must be passed to the model. The form is kText if the tokens of
  // the model mark the parts of a word with prefixes or suffixes.
  WordForm word_form() const { return word_form_; }
  const MergeTable& merges() const { return merges_; }
  // Returns an object that checks whether one token can follow another in the encoding of a word.
  // Returns null if two different merges can make the same token.
  const PairCheck* pair_check() const { return pair_check_.get(); }

  // Returns the token whose text is `word`, if the model has the option ignore_merges. Returns
  // nothing if there is no such token or the option is not set.
  std::optional<TokenId> WholeWord(std::string_view word) const;
  // Returns the token of the byte `byte`. Returns nothing if the vocabulary has no such token, or
  // if word_form() is not kBytes.
  std::optional<TokenId> ByteToken(char byte) const {
    const TokenId id = byte_ids_[static_cast<uint8_t>(byte)];
    return word_form_ == WordForm::kBytes && id >= 0 ? std::optional(id) : std::nullopt;
  }
  // Returns true if word_form() is kBytes and the vocabulary has a token for every byte.
  bool has_all_bytes() const { return has_all_bytes_; }
  // Appends the tokens of the single characters of `word` to `ids`, without merges. Returns
  // INVALID_ARGUMENT if a character needs the token for unknown characters (unk_token), and the
  // vocabulary does not contain this token.
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
  // Maps the bytes of a token to the token id. Filled only if the option ignore_merges is set and
  // `word_form_` is kBytes.
  IdMap ids_of_bytes_;
  // tokens_[id] is the text of token `id`, or empty if there is no such token.
  std::vector<std::string> tokens_;
  MergeTable merges_;
  std::unique_ptr<const PairCheck> pair_check_;
  // Element i is the index in `character_ids_` of the tokens for the characters [256 * i, 256 * (i
  // + 1)). -1 if none of these characters has a token.
  std::vector<int32_t> character_pages_;
  // Token ids of single characters, in groups of 256 characters. -1: the character has no token.
  std::vector<TokenId> character_ids_;
  // byte_ids_[b] is the token of the character that stands for the byte b in byte-level BPE
  // (byte_alphabet.h). -1 if there is no such token.
  std::array<TokenId, 256> byte_ids_{};
  bool has_all_bytes_ = false;
  // byte_fallbacks_[b] is the token that names the byte b, such as `<0x0A>` for the byte 10. -1 if
  // there is no such token.
  std::array<TokenId, 256> byte_fallbacks_{};
};

}  // namespace incipit
