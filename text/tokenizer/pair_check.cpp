#include "text/tokenizer/pair_check.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace incipit {

std::unique_ptr<const PairCheck> PairCheck::Create(const MergeTable& merges, size_t num_tokens) {
  std::unique_ptr<PairCheck> result(new PairCheck);
  return result->FindOrigins(merges, num_tokens) ? std::move(result) : nullptr;
}

// Finds the origin of each token: the merge that makes the token. Ignores merges that can never
// apply. Returns false if several merges can make the same token.
bool PairCheck::FindOrigins(const MergeTable& merges, size_t num_tokens) {
  origins_.resize(num_tokens);
  is_merged_.assign(num_tokens, false);
  for (const MergeTable::Merge& merge : merges.in_order()) is_merged_[merge.merged] = true;
  // Merges to process later, because no merge that makes their left or right token was processed
  // yet. The key is the id of this left or right token.
  absl::flat_hash_map<TokenId, std::vector<MergeTable::Merge>> waiting;
  // Stack of merges to process next.
  std::vector<MergeTable::Merge> next;
  for (const MergeTable::Merge& in_order : merges.in_order()) {
    if (in_order.rank == MergeTable::kNoRank) continue;
    next.push_back(in_order);
    while (!next.empty()) {
      const MergeTable::Merge merge = next.back();
      next.pop_back();
      if (!IsKnown(merge.left) || !IsKnown(merge.right)) {
        waiting[IsKnown(merge.left) ? merge.right : merge.left].push_back(merge);
        continue;
      }
      if (!DoMeet(merges, merge.left, merge.right)) continue;
      if (IsKnown(merge.merged)) return false;
      origins_[merge.merged] = OriginOf(merge);
      if (auto node = waiting.extract(merge.merged); !node.empty()) {
        next.insert(next.end(), node.mapped().begin(), node.mapped().end());
      }
    }
  }
  return true;
}

PairCheck::Origin PairCheck::OriginOf(const MergeTable::Merge& merge) const {
  const Origin& left = origins_[merge.left];
  const Origin& right = origins_[merge.right];
  const int32_t time = std::max({merge.rank, left.time, right.time});
  // True if the last merge inside the new token (the merge with the rank `time`) is not in the
  // right part.
  const bool behind_waits = right.time < time;
  // True if the last merge inside the new token is not in the left part. If both parts contain a
  // merge with the rank `time`, the last merge is in the right part.
  const bool before_waits = right.time == time || left.time < time;
  return {.time = time,
          .limit_behind = behind_waits ? time : merge.rank,
          .limit_before = (before_waits ? time : merge.rank) + 1,
          .left = merge.left,
          .right = merge.right,
          .length = left.length + right.length};
}

bool PairCheck::AreCompatible(const MergeTable& merges, TokenId left, TokenId right) const {
  return merges.RankOf(left, right) == MergeTable::kNoRank && DoMeet(merges, left, right);
}

// Undoes the merges inside `left` and `right` one by one, the last merge first. Returns false if a
// merge of the two tokens at the border would have applied earlier.
bool PairCheck::DoMeet(const MergeTable& merges, TokenId left, TokenId right) const {
  while (true) {
    const Origin& left_origin = origins_[left];
    const Origin& right_origin = origins_[right];
    // A merge of `left` and `right` with a rank less than `limit` applies before the merge that
    // this iteration undoes.
    int32_t limit;
    if (left_origin.time > right_origin.time) {
      limit = left_origin.limit_behind;
      left = left_origin.right;
    } else if (right_origin.time != kNotMade) {
      limit = right_origin.limit_before;
      right = right_origin.left;
    } else {
      return true;
    }
    if (merges.RankOf(left, right) < limit) return false;
  }
}

void PairCheck::Unmerge(TokenId token, std::span<TokenId> symbols) const {
  while (origins_[token].time != kNotMade) {
    const Origin& origin = origins_[token];
    const size_t right_length = LengthOf(origin.right);
    Unmerge(origin.right, symbols.last(right_length));
    symbols = symbols.first(symbols.size() - right_length);
    token = origin.left;
  }
  symbols.front() = token;
}

}  // namespace incipit
