// Checks whether two tokens can be neighbours in the byte-pair encoding of a word. Two tokens are
// compatible if merging the symbols of both tokens results in the same two tokens. A list of tokens
// is the encoding of a word if and only if all neighbours in the list are compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/types.h"
#include "text/tokenizer/merge_table.h"

namespace incipit {

// Checks whether two tokens are compatible (can be neighbours in the encoding of a word). An object
// works for the merges of one model. Immutable.
class PairCheck {
 public:
  // Creates the check for the merges in `merges`. Returns null if two different merges can make the
  // same token. REQUIRES: merges.Finish() was called. REQUIRES: `num_tokens` is greater than every
  // token id.
  static std::unique_ptr<const PairCheck> Create(const MergeTable& merges, size_t num_tokens);

  // Returns true if merging the symbols of `left` and then of `right` as one word results in the
  // same two tokens. REQUIRES: `merges` is the argument of Create(). REQUIRES: merging the symbols
  // of `left` alone results in `left`, and merging the symbols of `right` alone results in `right`.
  bool AreCompatible(const MergeTable& merges, TokenId left, TokenId right) const;
  // Returns true if some merge makes `token`. Returns false if `token` is a symbol.
  bool IsMerged(TokenId token) const { return is_merged_[token]; }
  // Returns the number of symbols from which `token` is merged.
  size_t LengthOf(TokenId token) const { return origins_[token].length; }
  // Writes the symbols from which `token` is merged to `symbols`. REQUIRES: symbols.size() is equal
  // to LengthOf(token).
  void Unmerge(TokenId token, std::span<TokenId> symbols) const;

 private:
  // Value of Origin::time for a symbol (a token that no merge makes); less than every rank.
  static constexpr int32_t kNotMade = -1;

  // The origin of a token: the merge of the tokens `left` and `right` that makes the token.
  struct Origin {
    // Highest rank of all merges inside the token; kNotMade if the token is a symbol.
    int32_t time = kNotMade;
    // Limits for ranks. A merge of `right` with the next token applies before the merge of `left`
    // and `right` if its rank is less than `limit_behind`. `limit_before` is the limit for merges
    // of the previous token with `left`.
    int32_t limit_behind = 0, limit_before = 0;
    TokenId left = -1, right = -1;
    uint32_t length = 1;  // number of symbols from which the token is merged
  };

  PairCheck() = default;
  bool FindOrigins(const MergeTable& merges, size_t num_tokens);
  bool IsKnown(TokenId id) const { return !is_merged_[id] || origins_[id].time != kNotMade; }
  // Returns true if no merge across the border of `left` and `right` applies before both tokens are
  // made from their symbols.
  bool DoMeet(const MergeTable& merges, TokenId left, TokenId right) const;
  Origin OriginOf(const MergeTable::Merge& merge) const;

  std::vector<Origin> origins_;  // origins_[id]: the merge that makes token `id`
  std::vector<bool> is_merged_;  // is_merged_[id]: true if some merge makes token `id`
};

}  // namespace incipit
