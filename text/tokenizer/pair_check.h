// Tells whether two neighbouring tokens of a word stay as they are, from the two alone.
//
// Two tokens are compatible if merging the symbols of both gives these two tokens again. A list of
// tokens is what merging makes of a word if and only if all neighbours in it are compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/types.h"
#include "text/tokenizer/merge_table.h"

namespace incipit {

// Immutable.
class PairCheck {
 public:
  // Returns null if a merge may apply that has a lower rank than a merge that made one of its two
  // symbols, because compatible neighbours do not tell the order of such merges. `num_tokens` is
  // greater than any id.
  static std::unique_ptr<const PairCheck> Create(const MergeTable& merges, size_t num_tokens);

  // REQUIRES: merging symbols that no merge makes has made `left` and `right`.
  bool AreCompatible(TokenId left, TokenId right) const;
  // Returns true if some merge makes the token, so that it must not be a symbol of a word.
  bool IsMerged(TokenId token) const { return is_merged_[token]; }
  // Returns the number of symbols that a token is made of.
  size_t LengthOf(TokenId token) const { return origins_[token].length; }

 private:
  static constexpr int32_t kNotMade = -1;  // less than any rank

  // The last merge when the symbols of a token are merged, and nothing else.
  struct Origin {
    int32_t rank = kNotMade;  // in `merges_`
    TokenId left = -1, right = -1;
    uint32_t length = 1;  // in symbols
  };

  PairCheck() = default;
  bool FindOrigins(const MergeTable& merges, size_t num_tokens);

  MergeTable merges_;            // those of `origins_`
  std::vector<Origin> origins_;  // by token
  std::vector<bool> is_merged_;  // by token
};

}  // namespace incipit
