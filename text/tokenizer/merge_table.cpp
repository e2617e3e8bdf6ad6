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
  const std::vector<Joined> joined = JoinedSymbols(num_tokens);
  std::vector<uint32_t> counts(num_tokens, 0);
  for (const Merge& merge : merges_) ++counts[merge.left];
  for (const Joined& pair : joined) ++counts[pair.left];
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
  for (const Joined& pair : joined) Insert(pair.left, {.right = pair.right});
  for (const Merge& merge : merges_) {
    Insert(merge.left, {.right = merge.right, .merged = merge.merged, .rank = merge.rank});
  }
  for (Merge& merge : merges_) {
    if (Find(merge.left, merge.right)->rank != merge.rank) merge.rank = kNoRank;
  }
  common_.assign(num_tokens, kCommonMax);
  if (knows_ends_) IndexCommonSymbols(joined);
}

// For each merge, returns the last symbol (token that no merge makes) of the left token, and the
// first symbol of the right token. Omits duplicates. Sets knows_ends_ to false if a token has
// several possible first or last symbols.
std::vector<MergeTable::Joined> MergeTable::JoinedSymbols(size_t num_tokens) {
  // The two tokens that are merged into `token` are left_of[token] and right_of[token]. Both are -1
  // if no merge makes `token`.
  std::vector<TokenId> left_of(num_tokens, -1), right_of(num_tokens, -1);
  for (const Merge& merge : merges_) {
    left_of[merge.merged] = merge.left;
    right_of[merge.merged] = merge.right;
  }
  // Returns the first symbol of each token (`links` is left_of), or the last symbol of each token
  // (`links` is right_of). Sets knows_ends_ to false if `links` contains a cycle.
  const auto ends_of = [&](const std::vector<TokenId>& links) {
    std::vector<TokenId> ends(num_tokens);
    for (size_t token = 0; knows_ends_ && token < num_tokens; ++token) {
      auto id = static_cast<TokenId>(token);
      for (size_t i = 0; i < num_tokens && links[id] >= 0; ++i) id = links[id];
      knows_ends_ = knows_ends_ && links[id] < 0;
      ends[token] = id;
    }
    return ends;
  };
  const std::vector<TokenId> first_of = ends_of(left_of), last_of = ends_of(right_of);
  if (!knows_ends_) return {};
  std::vector<Joined> joined;
  absl::flat_hash_set<std::pair<TokenId, TokenId>> known;
  for (const Merge& merge : merges_) {
    const TokenId left = last_of[merge.left], right = first_of[merge.right];
    if (known.emplace(left, right).second) {
      joined.push_back({.left = left, .right = right, .rank = merge.rank});
    }
    // Each token must have only one first symbol and one last symbol, whichever merge makes the
    // token.
    knows_ends_ = knows_ends_ && first_of[merge.merged] == first_of[merge.left] &&
                  last_of[merge.merged] == last_of[merge.right];
  }
  return joined;
}

void MergeTable::IndexCommonSymbols(std::span<const Joined> joined) {
  common_pairs_.resize(size_t{kCommonMax} * kCommonMax);
  uint16_t num_common = 0;
  for (const Joined& pair : joined) {
    for (const TokenId symbol : {pair.left, pair.right}) {
      if (common_[symbol] == kCommonMax && num_common < kCommonMax) common_[symbol] = num_common++;
    }
  }
  for (const Joined& pair : joined) {
    const uint16_t row = common_[pair.left], column = common_[pair.right];
    if (row == kCommonMax || column == kCommonMax) continue;
    const Entry* entry = Find(pair.left, pair.right);
    common_pairs_[row * kCommonMax + column] = {
        .merged = entry->merged, .rank = entry->rank, .rank_across = pair.rank};
  }
}

void MergeTable::Insert(TokenId left, const Entry& entry) {
  Group& group = groups_[left];
  const uint64_t hash = HashOf(entry.right);
  uint64_t& filter = group.is_small() ? group.filter : filters_[FilterWordOf(group, hash)];
  filter |= uint64_t{1} << FilterBitOf(hash);
  size_t slot = SlotOf(hash) & group.mask;
  while (entries_[group.begin + slot].right >= 0 &&
         entries_[group.begin + slot].right != entry.right) {
    slot = (slot + 1) & group.mask;
  }
  entries_[group.begin + slot] = entry;
}

}  // namespace incipit
