// Checks whether one token can follow another in the byte-pair encoding of a word. Two tokens are
// compatible if encoding their joined text results in the same two tokens. A list of tokens is the
// encoding of a word if and only if all neighbours are compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/types.h"
#include "text/tokenizer/merge_table.h"

namespace incipit {

// Checks whether two tokens are compatible: whether they can be neighbours in the encoding of a
// word. An object is valid for the merges of one model. Immutable.
class PairCheck {
 public:
  // Creates an object for the merges in `merges`. Returns null if two different merges can make the
  // same token. REQUIRES: merges.Finish() was called, and `num_tokens` is greater than every token
  // id.
  static std::unique_ptr<const PairCheck> Create(const MergeTable& merges, size_t num_tokens);

  // Returns true if encoding the joined text of `left` and `right` results in these two tokens.
  // REQUIRES: `merges` is the argument of Create(). REQUIRES: encoding the text of each token alone
  // results in the same token.
  bool AreCompatible(const MergeTable& merges, TokenId left, TokenId right) const;
  // Returns true if a merge makes `token`. Returns false for a symbol (a token that no merge
  // makes).
  bool IsMerged(TokenId token) const { return is_merged_[token]; }
  // Returns the number of symbols that are merged into `token`.
  size_t LengthOf(TokenId token) const { return origins_[token].length; }
  // Writes to `symbols` the symbols that are merged into `token`. REQUIRES: symbols.size() is
  // LengthOf(token).
  void Unmerge(TokenId token, std::span<TokenId> symbols) const;

 private:
  // Value of Origin::time for a token that no merge makes; less than every rank.
  static constexpr int32_t kNotMade = -1;

  // The origin of a token: the merge of the tokens `left` and `right` into the token.
  struct Origin {
    // Highest rank of all merges inside the token; kNotMade if there are none.
    int32_t time = kNotMade;
    // Limits for the ranks of two merges that can prevent the merge of `left` and `right`. A merge
    // of `right` with the following token applies first if its rank is less than `limit_behind`. A
    // merge of the preceding token with `left` applies first if its rank is less than
    // `limit_before`.
    int32_t limit_behind = 0, limit_before = 0;
    TokenId left = -1, right = -1;
    uint32_t length = 1;  // number of symbols in the token
  };

  PairCheck() = default;
  bool FindOrigins(const MergeTable& merges, size_t num_tokens);
  bool IsKnown(TokenId id) const { return !is_merged_[id] || origins_[id].time != kNotMade; }
  // Returns true if merges complete the tokens `left` and `right` before any merge can join a part
  // of `left` with a part of `right`.
  bool DoMeet(const MergeTable& merges, TokenId left, TokenId right) const;
  Origin OriginOf(const MergeTable::Merge& merge) const;

  std::vector<Origin> origins_;  // origins_[id]: the merge that makes token `id`
  std::vector<bool> is_merged_;  // is_merged_[id]: true if a merge makes token `id`
};

}  // namespace incipit
