// The merges of a byte-pair encoding (BPE). A lookup finds a merge by the two tokens that it joins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/types.h"

namespace incipit {

// Maps two neighbouring tokens to their merge. BPE spends most of the time in lookups of merges.
// The table also contains every pair of symbols (tokens that no merge makes) that may meet at the
// border between the two tokens of a merge.
class MergeTable {
 public:
  static constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();
  struct Merge {
    TokenId left = -1, right = -1, merged = -1;
    int32_t rank = kNoRank;
  };
  // An entry of the hash table of one left token: the merge with the token `right`.
  struct Entry {
    TokenId right = -1, merged = -1;
    int32_t rank = kNoRank;  // kNoRank: merges join the two tokens only inside longer tokens
  };

  // The merges that may join two neighbouring symbols.
  struct SymbolPair {
    TokenId merged = -1;
    int32_t rank = kNoRank;
    // Least rank of the merges whose left token ends with the left symbol and whose right token
    // begins with the right symbol; kNoRank if no merge joins the two symbols.
    int32_t rank_across = kNoRank;
  };

  // Adds the merge of `left` and `right` to the token `merged`, with the next rank. A later merge
  // of the same two tokens replaces the earlier merge; the rank of the earlier merge then stays
  // unused. REQUIRES: Finish() was not called.
  void Add(TokenId left, TokenId right, TokenId merged);
  // Builds the tables for lookups of all added merges. REQUIRES: `num_tokens` is greater than every
  // token id.
  void Finish(size_t num_tokens);

  // Returns the entry of the tokens `left` and `right`. Returns null if no merge ever joins `left`
  // and `right`. REQUIRES: Finish() was called.
  const Entry* Find(TokenId left, TokenId right) const {
    const Group& group = groups_[left];
    const uint64_t hash = HashOf(right);
    const uint64_t filter = group.is_small() ? group.filter : filters_[FilterWordOf(group, hash)];
    if ((filter >> FilterBitOf(hash) & 1) == 0) return nullptr;
    for (size_t slot = SlotOf(hash) & group.mask;; slot = (slot + 1) & group.mask) {
      const Entry& entry = entries_[group.begin + slot];
      if (entry.right == right) return &entry;
      if (entry.right < 0) return nullptr;
    }
  }
  // Returns the pair of the symbols `left` and `right`. Returns null if `left` or `right` is not a
  // common symbol. The common symbols are the first kCommonMax symbols in the order of merges.
  const SymbolPair* FindCommon(TokenId left, TokenId right) const {
    const uint16_t row = common_[left], column = common_[right];
    if (row == kCommonMax || column == kCommonMax) return nullptr;
    return &common_pairs_[row * kCommonMax + column];
  }
  // Returns false if no merge ever joins the symbols `left` and `right`, not even inside longer
  // tokens. Returns true if the first and last symbols of some token are not known.
  bool MayJoin(TokenId left, TokenId right) const {
    if (!knows_ends_) return true;
    const SymbolPair* pair = FindCommon(left, right);
    return pair != nullptr ? pair->rank_across != kNoRank : Find(left, right) != nullptr;
  }
  // Prefetches the description of the hash table of `left` into the processor cache.
  void Prefetch(TokenId left) const { __builtin_prefetch(&groups_[left]); }
  // Returns the merges in order of rank. A merge that a later merge has replaced has the rank
  // kNoRank.
  std::span<const Merge> in_order() const { return merges_; }

 private:
  static constexpr uint16_t kCommonMax = 256;  // maximum number of common symbols

  // Two symbols that merges join, directly or inside longer tokens.
  struct Joined {
    TokenId left = -1, right = -1;
    int32_t rank = kNoRank;  // least rank of the merges that join the two symbols
  };

  // The hash table of the merges with one left token, with linear probing. One table for each left
  // token keeps the entries of consecutive lookups close together in memory. Most lookups find
  // nothing and end at the filter, a bit set with one bit for the hash of each entry.
  struct Group {
    uint64_t filter = 0;  // small group: its filter; large group: index of its filter in `filters_`
    uint32_t begin = 0;   // index of the first slot in `entries_`
    uint32_t mask = 0;    // number of slots minus 1; at least one slot is free

    bool is_empty() const { return is_small() && filter == 0; }
    bool is_small() const { return mask < 16; }
  };

  static uint64_t HashOf(TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(right)) * 0x9E3779B97F4A7C15u;
  }
  static uint64_t FilterBitOf(uint64_t hash) { return hash >> 58; }
  static size_t FilterWordOf(const Group& group, uint64_t hash) {
    return group.filter + (hash >> 48 & group.mask / 8);
  }
  static size_t SlotOf(uint64_t hash) { return static_cast<size_t>(hash >> 24); }
  std::vector<Joined> JoinedSymbols(size_t num_tokens);
  void Insert(TokenId left, const Entry& entry);
  void IndexCommonSymbols(std::span<const Joined> joined);

  std::vector<Merge> merges_;             // in order of rank
  std::vector<Group> groups_;             // indexed by left token
  std::vector<uint64_t> filters_;         // filters of large groups, one word for 8 slots
  std::vector<Entry> entries_;            // slots of all groups
  std::vector<uint16_t> common_;          // by token: index of the common symbol, or kCommonMax
  std::vector<SymbolPair> common_pairs_;  // by common_[left] * kCommonMax + common_[right]
  bool knows_ends_ = true;  // true if every token has one possible first and one last symbol
};

}  // namespace incipit
