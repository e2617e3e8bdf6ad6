#include "text/tokenizer/pair_check.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace incipit {

std::unique_ptr<const PairCheck> PairCheck::Create(const MergeTable& merges, size_t num_tokens) {
  std::unique_ptr<PairCheck> result(new PairCheck);
  return result->FindOrigins(merges, num_tokens) ? std::move(result) : nullptr;
}

// Finds the merge that makes each token. Returns false if two merges can make one token, or if a
// merge can apply before the merges that make its tokens. Of several merges with the same result,
// at most one ever applies: merging the symbols of the token alone always ends with the same merge,
// whatever text is around the symbols.
bool PairCheck::FindOrigins(const MergeTable& merges, size_t num_tokens) {
  origins_.resize(num_tokens);
  is_merged_.assign(num_tokens, false);
  for (const MergeTable::Merge& merge : merges.in_order()) is_merged_[merge.merged] = true;
  // Merges with a token of which it is not known how it is made.
  absl::flat_hash_map<TokenId, std::vector<MergeTable::Merge>> waiting;
  // Merges listed before the merges that make their two tokens.
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
  // Nothing comes between a hasty merge and the one that made the last of its tokens, which is the
  // right one if both were made at that rank. The other token has waited while that rank was next.
  const bool behind_waits = right.time < time;
  const bool before_waits = right.time == time || left.time < time;
  return {.time = time,
          .limit_behind = behind_waits ? time : merge.rank,
          .limit_before = (before_waits ? time : merge.rank) + 1,
          .left = merge.left,
          .right = merge.right,
          .length = left.length + right.length};
}

bool PairCheck::AreCompatible(const MergeTable& merges, TokenId left, TokenId right) const {
  const MergeTable::Entry* across = merges.Find(left, right);
  return (across == nullptr || across->rank == MergeTable::kNoRank) && DoMeet(merges, left, right);
}

// Takes the merges of both tokens back, the last one first, and looks whether at any time the two
// symbols on both sides of the border would rather have merged with each other. Of two merges with
// the same rank, the left one comes first.
bool PairCheck::DoMeet(const MergeTable& merges, TokenId left, TokenId right) const {
  while (true) {
    const Origin& left_origin = origins_[left];
    const Origin& right_origin = origins_[right];
    int32_t limit;  // a merge across must have this rank at least
    if (left_origin.time > right_origin.time) {
      limit = left_origin.limit_behind;
      left = left_origin.right;
    } else if (right_origin.time != kNotMade) {
      limit = right_origin.limit_before;
      right = right_origin.left;
    } else {
      return true;
    }
    const MergeTable::Entry* across = merges.Find(left, right);
    if (across != nullptr && across->rank < limit) return false;
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
