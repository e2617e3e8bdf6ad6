// Checks whether two tokens can be neighbours in the result of merging a word.
//
// Two tokens are compatible if merging the symbols of both results in the same two tokens. A list
// of tokens is the result of merging a word if and only if all neighbours in the list are
// compatible. The reason is that each token results only from merges inside the token, as long as
// no merge joins symbols of different tokens. The order of the merges inside a token does not
// depend on other tokens.
//
// Usually, a merge has a higher rank than the merges that make its two tokens. A hasty merge is an
// exception with a lower rank. A hasty merge applies as soon as its two tokens exist. If other
// pairs have the rank at which the last of the two tokens was made, the hasty merge applies before
// the merges of these pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/types.h"
#include "text/tokenizer/merge_table.h"

namespace incipit {

// Checks pairs of neighbouring tokens with the merges of one model. Immutable.
class PairCheck {
 public:
  // Creates the check for `merges`. Returns null if two different merges can make the same token.
  // REQUIRES: merges.Finish() was called, and `num_tokens` is greater than every token id.
  static std::unique_ptr<const PairCheck> Create(const MergeTable& merges, size_t num_tokens);

  // Returns true if `left` and `right` are compatible. REQUIRES: `merges` is the argument of
  // Create(), and `left` and `right` each result from merging a list of symbols.
  bool AreCompatible(const MergeTable& merges, TokenId left, TokenId right) const;
  // Returns true if some merge makes `token`. A list of symbols must not contain a merged token.
  bool IsMerged(TokenId token) const { return is_merged_[token]; }
  // Returns the number of symbols that `token` is made of.
  size_t LengthOf(TokenId token) const { return origins_[token].length; }
  // Writes the symbols that `token` is made of to `symbols`. REQUIRES: symbols.size() is equal to
  // LengthOf(token).
  void Unmerge(TokenId token, std::span<TokenId> symbols) const;

 private:
  static constexpr int32_t kNotMade = -1;  // time of a symbol; less than every rank

  // The last merge that makes a token if only the symbols of the token are merged.
  struct Origin {
    // Highest rank of all merges that make the token; kNotMade if the token is a symbol.
    int32_t time = kNotMade;
    // Limits for other merges of `left` and `right`. A merge of `right` with the following token
    // applies before this merge if its rank is less than `limit_behind`. A merge of `left` with the
    // preceding token applies before this merge if its rank is less than `limit_before`.
    int32_t limit_behind = 0, limit_before = 0;
    TokenId left = -1, right = -1;
    uint32_t length = 1;  // number of symbols in the token
  };

  PairCheck() = default;
  bool FindOrigins(const MergeTable& merges, size_t num_tokens);
  bool IsKnown(TokenId id) const { return !is_merged_[id] || origins_[id].time != kNotMade; }
  // Returns true if merging the symbols of `left` and `right` makes `left` and `right` before any
  // merge joins a symbol of `left` with a symbol of `right`.
  bool DoMeet(const MergeTable& merges, TokenId left, TokenId right) const;
  Origin OriginOf(const MergeTable::Merge& merge) const;

  std::vector<Origin> origins_;  // indexed by token id
  std::vector<bool> is_merged_;  // indexed by token id: true if some merge makes the token
};

}  // namespace incipit
