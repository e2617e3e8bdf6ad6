// The merges of a byte-pair encoding (BPE), found by the two tokens that a merge joins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/types.h"

namespace incipit {

// Hash table from two neighbouring tokens to their merge; BPE spends most of its time in this
// lookup. The table also contains all pairs of symbols (tokens that no merge makes) that can meet
// at the border of a merge.
class MergeTable {
 public:
  static constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();
  struct Merge {
    TokenId left = -1, right = -1, merged = -1;
    int32_t rank = kNoRank;
  };
  // A merge as the table of its left token has it.
  struct Entry {
    TokenId right = -1, merged = -1;
    int32_t rank = kNoRank;  // kNoRank: the two tokens are joined only as parts of longer tokens
  };

  // What the table has of two symbols that no merge makes.
  struct SymbolPair {
    TokenId merged = -1;
    int32_t rank = kNoRank;
    // The least rank of a merge of a token that ends with the left symbol and one that begins with
    // the right one; kNoRank if no merge joins the two.
    int32_t rank_across = kNoRank;
  };

  // A later merge of the same pair replaces an earlier one, but the rank of the earlier one is not
  // used again. REQUIRES: not finished.
  void Add(TokenId left, TokenId right, TokenId merged);
  // Makes the merges that were added findable. `num_tokens` is greater than any id.
  void Finish(size_t num_tokens);

  // Returns null if no merge ever joins the two. REQUIRES: finished.
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
  // Returns null if one of the two is not among the symbols that are merged first, which are the
  // common ones.
  const SymbolPair* FindCommon(TokenId left, TokenId right) const {
    const uint16_t row = common_[left], column = common_[right];
    if (row == kCommonMax || column == kCommonMax) return nullptr;
    return &common_pairs_[row * kCommonMax + column];
  }
  // Returns false if no merge ever joins the two.
  bool MayJoin(TokenId left, TokenId right) const {
    const SymbolPair* pair = FindCommon(left, right);
    return pair != nullptr ? pair->rank_across != kNoRank : Find(left, right) != nullptr;
  }
  // Brings into the core's cache what looks up the merges of this left token.
  void Prefetch(TokenId left) const { __builtin_prefetch(&groups_[left]); }
  // Returns the merges by rank. One that a later merge has replaced has no rank of its own.
  std::span<const Merge> in_order() const { return merges_; }

 private:
  static constexpr uint16_t kCommonMax = 256;  // symbols

  // Symbols that merges join.
  struct Joined {
    TokenId left = -1, right = -1;
    int32_t rank = kNoRank;  // the least rank of these merges
  };

  // A hash table of the merges with one left token: neighbours are looked up one after the other,
  // so that what one look-up brings into a core's cache serves the next. Most look-ups find nothing
  // and are answered by a filter, which has a bit for each entry, by hash.
  struct Group {
    uint64_t filter = 0;  // of a large group: where it begins in `filters_`, a word for eight slots
    uint32_t begin = 0;   // in `entries_`
    uint32_t mask = 0;    // one less than the number of slots, of which one is free

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

  std::vector<Merge> merges_;  // by rank
  std::vector<Group> groups_;  // by left token
  std::vector<uint64_t> filters_;
  std::vector<Entry> entries_;    // open addressing, group by group
  std::vector<uint16_t> common_;  // by token: which common symbol it is; kCommonMax for others
  std::vector<SymbolPair> common_pairs_;  // by left and right one
  bool knows_ends_ = true;                // for each token, which symbols it begins and ends with
};

}  // namespace incipit
