// Checks, from two neighbouring tokens of a word alone, whether merging the word keeps both tokens.
//
// Two tokens are compatible if merging the symbols of both gives these two tokens again. A list of
// tokens is what merging makes of a word if and only if all neighbours in it are compatible: as
// long as no merge joins symbols of two tokens, each token is made by its own merges, and which of
// two such merges comes first does not depend on other tokens.
//
// Mostly a merge has a higher rank than those that made its two tokens. A hasty merge has a lower
// one: it applies as soon as its tokens are there, before whatever else still has the rank at which
// the last of them was made.
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
  // Returns null if one token is made in two ways. `merges` must be finished and is used later on,
  // for as long as `AreCompatible` is given the same; `num_tokens` is greater than any id.
  static std::unique_ptr<const PairCheck> Create(const MergeTable& merges, size_t num_tokens);

  // REQUIRES: `merges` is what Create had; merging symbols that no merge makes has made `left` and
  // `right`.
  bool AreCompatible(const MergeTable& merges, TokenId left, TokenId right) const;
  // Returns true if some merge makes the token. The token must then not be a symbol of a word.
  bool IsMerged(TokenId token) const { return is_merged_[token]; }
  // Returns the number of symbols in the token.
  size_t LengthOf(TokenId token) const { return origins_[token].length; }
  // Writes these symbols. REQUIRES: `symbols` has room for exactly them.
  void Unmerge(TokenId token, std::span<TokenId> symbols) const;

 private:
  static constexpr int32_t kNotMade = -1;  // less than every rank

  // The last merge that makes a token if only the symbols of the token are merged.
  struct Origin {
    // The highest rank of the token's merges; those with one rank are applied from left to right.
    int32_t time = kNotMade;
    // While the two tokens wait for this merge, a merge of the right one with what follows the
    // token is earlier if its rank is below `limit_behind`; one of the left one with what precedes
    // the token, if its rank is below `limit_before`.
    int32_t limit_behind = 0, limit_before = 0;
    TokenId left = -1, right = -1;
    uint32_t length = 1;  // number of symbols
  };

  PairCheck() = default;
  bool FindOrigins(const MergeTable& merges, size_t num_tokens);
  bool IsKnown(TokenId id) const { return !is_merged_[id] || origins_[id].time != kNotMade; }
  // Returns true if merging the symbols of both tokens makes the two at some time.
  bool DoMeet(const MergeTable& merges, TokenId left, TokenId right) const;
  Origin OriginOf(const MergeTable::Merge& merge) const;

  std::vector<Origin> origins_;  // indexed by token
  std::vector<bool> is_merged_;  // indexed by token
};

}  // namespace incipit
