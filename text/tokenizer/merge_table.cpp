#include "text/tokenizer/merge_table.h"

#include <bit>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace incipit {

void MergeTable::Add(TokenId left, TokenId right, TokenId merged) {
  merges_.push_back({.left = left,
                     .right = right,
                     .merged = merged,
                     .rank = static_cast<int32_t>(merges_.size())});
}

void MergeTable::Finish(size_t num_tokens) {
  const std::vector<Merge> joined = JoinedSymbols(num_tokens);
  std::vector<uint32_t> counts(num_tokens, 0);
  for (const Merge& merge : merges_) ++counts[merge.left];
  for (const Merge& merge : joined) ++counts[merge.left];
  groups_.resize(num_tokens);
  uint32_t num_slots = 0;
  for (size_t token = 0; token < num_tokens; ++token) {
    const uint32_t size = std::bit_ceil(counts[token] + counts[token] / 2 + 1);
    if (counts[token] == 0) continue;
    Group& group = groups_[token];
    group = {.filter = 0, .begin = num_slots, .mask = size - 1};
    if (!group.is_small()) {
      group.filter = filters_.size();
      filters_.resize(filters_.size() + size / 8, 0);
    }
    num_slots += size;
  }
  entries_.resize(num_slots);
  for (const Merge& merge : joined) Insert(merge);
  for (const Merge& merge : merges_) Insert(merge);
  IndexCommonSymbols(joined);
  for (Merge& merge : merges_) {
    if (Find(merge.left, merge.right)->rank != merge.rank) merge.rank = kNoRank;
  }
}

// A token begins with what the left one of its merge begins with, and ends with what the right one
// ends with; following that leads to symbols that no merge makes.
std::vector<MergeTable::Merge> MergeTable::JoinedSymbols(size_t num_tokens) const {
  std::vector<TokenId> left_of(num_tokens, -1), right_of(num_tokens, -1);
  for (const Merge& merge : merges_) {
    left_of[merge.merged] = merge.left;
    right_of[merge.merged] = merge.right;
  }
  // A chain has no more links than there are tokens, unless it is a circle: then nothing is known.
  const auto follow = [](const std::vector<TokenId>& links, TokenId id) {
    for (size_t i = 0; i < links.size() && links[id] >= 0; ++i) id = links[id];
    return id;
  };
  std::vector<Merge> joined;
  absl::flat_hash_set<std::pair<TokenId, TokenId>> known;
  for (const Merge& merge : merges_) {
    const TokenId left = follow(right_of, merge.left), right = follow(left_of, merge.right);
    if (known.emplace(left, right).second) joined.push_back({.left = left, .right = right});
  }
  return joined;
}

void MergeTable::IndexCommonSymbols(std::span<const Merge> joined) {
  common_.assign(groups_.size(), kCommonMax);
  common_pairs_.assign(size_t{kCommonMax} * kCommonMax, kNoEntry);
  uint16_t num_common = 0;
  for (const Merge& pair : joined) {
    for (const TokenId symbol : {pair.left, pair.right}) {
      if (common_[symbol] == kCommonMax && num_common < kCommonMax) common_[symbol] = num_common++;
    }
  }
  for (size_t left = 0; left < groups_.size(); ++left) {
    const Group& group = groups_[left];
    if (common_[left] == kCommonMax || group.is_empty()) continue;
    for (uint32_t index = group.begin; index <= group.begin + group.mask; ++index) {
      const TokenId right = entries_[index].right;
      if (right < 0 || common_[right] == kCommonMax) continue;
      common_pairs_[common_[left] * kCommonMax + common_[right]] = index;
    }
  }
}

void MergeTable::Insert(const Merge& merge) {
  Group& group = groups_[merge.left];
  const uint64_t hash = HashOf(merge.right);
  (group.is_small() ? group.filter : filters_[FilterWordOf(group, hash)]) |= uint64_t{1}
                                                                             << FilterBitOf(hash);
  size_t slot = SlotOf(hash) & group.mask;
  while (entries_[group.begin + slot].right >= 0 &&
         entries_[group.begin + slot].right != merge.right) {
    slot = (slot + 1) & group.mask;
  }
  entries_[group.begin + slot] = {.right = merge.right, .merged = merge.merged, .rank = merge.rank};
}

}  // namespace incipit
