#include "text/tokenizer/pair_check.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace incipit {

std::unique_ptr<const PairCheck> PairCheck::Create(const MergeTable& merges, size_t num_tokens) {
  std::unique_ptr<PairCheck> result(new PairCheck);
  return result->FindOrigins(merges, num_tokens) ? std::move(result) : nullptr;
}

// Of several merges that make one token, at most one ever applies: merging the token's symbols
// alone ends with that one, and what is around the symbols does not matter until they are one
// token.
bool PairCheck::FindOrigins(const MergeTable& merges, size_t num_tokens) {
  origins_.resize(num_tokens);
  is_merged_.assign(num_tokens, false);
  const std::vector<MergeTable::Merge> in_order = merges.InOrder();
  for (const MergeTable::Merge& merge : in_order) is_merged_[merges.MergedAt(merge.rank)] = true;
  const auto is_known = [&](TokenId id) {
    return !is_merged_[id] || origins_[id].rank != kNotMade;
  };
  std::vector<MergeTable::Merge> early;  // before the merges that make their symbols
  for (const MergeTable::Merge& merge : in_order) {
    if (!is_known(merge.left) || !is_known(merge.right)) {
      early.push_back(merge);
      continue;
    }
    if (!AreCompatible(merge.left, merge.right)) continue;
    const TokenId merged = merges.MergedAt(merge.rank);
    if (is_known(merged)) return false;
    origins_[merged] = {.rank = static_cast<int32_t>(merges_.num_ranks()),
                        .left = merge.left,
                        .right = merge.right,
                        .length = origins_[merge.left].length + origins_[merge.right].length};
    merges_.Add(merge.left, merge.right, merged);
  }
  return std::ranges::none_of(early, [&](const MergeTable::Merge& merge) {
    return is_known(merge.left) && is_known(merge.right) && AreCompatible(merge.left, merge.right);
  });
}

// Takes the merges of both tokens back, the last one first, and looks whether at any time the two
// symbols on both sides of the border would rather have merged with each other. Of two merges with
// the same rank, the left one comes first.
bool PairCheck::AreCompatible(TokenId left, TokenId right) const {
  int32_t limit =
      std::numeric_limits<int32_t>::max();  // a merge across must have this rank at least
  while (true) {
    const MergeTable::Merge* across = merges_.Find(left, right);
    if (across != nullptr && across->rank < limit) return false;
    const Origin& left_origin = origins_[left];
    const Origin& right_origin = origins_[right];
    if (left_origin.rank > right_origin.rank) {
      limit = left_origin.rank;
      left = left_origin.right;
    } else if (right_origin.rank != kNotMade) {
      limit = right_origin.rank + 1;
      right = right_origin.left;
    } else {
      return true;
    }
  }
}

}  // namespace incipit
