// A table of the merges of a byte-pair encoding (BPE). Each merge joins two neighbouring tokens
// into one token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/types.h"

namespace incipit {

// Finds the merge that joins two neighbouring tokens. A second table finds merges of common symbols
// faster. A symbol is a token that no merge makes.
class MergeTable {
 public:
  static constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();
  struct Merge {
    TokenId left = -1, right = -1, merged = -1;
    int32_t rank = kNoRank;
  };
  // An entry of the hash table for one left token. The entry describes the merge of the left token
  // with the token `right`.
  struct Entry {
    TokenId right = -1, merged = -1;
    // Rank of the merge of the two tokens; kNoRank if no merge joins them.
    int32_t rank = kNoRank;
  };

  // The merge of two neighbouring symbols. A symbol is a token that no merge makes.
  struct SymbolPair {
    TokenId merged = -1;
    int32_t rank = kNoRank;
    // Lowest rank of all merges of a token that ends with the left symbol of this pair and a token
    // that begins with the right symbol. kNoRank if no such merge exists.
    int32_t rank_across = kNoRank;
  };

  // Adds the merge of the tokens `left` and `right` into the token `merged`. The rank of the merge
  // is the number of earlier calls of Add(). A later merge of the same two tokens replaces the
  // earlier merge. REQUIRES: Finish() was not called.
  void Add(TokenId left, TokenId right, TokenId merged);
  // Builds the hash tables of all added merges. REQUIRES: `num_tokens` is greater than every token
  // id.
  void Finish(size_t num_tokens);

  // Returns the table entry for the tokens `left` and `right`, or null. The rank of the entry may
  // be kNoRank: no merge joins the two tokens. REQUIRES: Finish() was called.
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
  // Returns the rank of the merge of `left` and `right`, or kNoRank if no merge joins them.
  int32_t RankOf(TokenId left, TokenId right) const {
    const Entry* merge = Find(left, right);
    return merge == nullptr ? kNoRank : merge->rank;
  }
  // Returns the table entry for the symbols `left` and `right`, or null if one of them is not a
  // common symbol (see kCommonMax). The rank is kNoRank if no merge joins the symbols.
  const SymbolPair* FindCommon(TokenId left, TokenId right) const {
    const uint16_t row = common_[left], column = common_[right];
    if (row == kCommonMax || column == kCommonMax) return nullptr;
    return &common_pairs_[row * kCommonMax + column];
  }
  // If the result is false, no merge joins a token that ends with the symbol `left` and a token
  // that begins with the symbol `right`. Always returns true if knows_ends_ is false.
  bool MayJoin(TokenId left, TokenId right) const {
    if (!knows_ends_) return true;
    const SymbolPair* pair = FindCommon(left, right);
    return pair != nullptr ? pair->rank_across != kNoRank : Find(left, right) != nullptr;
  }
  // Loads groups_[left] into the CPU cache, for a later call of Find(left, ...).
  void Prefetch(TokenId left) const { __builtin_prefetch(&groups_[left]); }
  // Returns all added merges in the order of the calls of Add(). A merge that was replaced by a
  // later merge has the rank kNoRank.
  std::span<const Merge> in_order() const { return merges_; }

 private:
  // Maximum number of common symbols. These are the symbols that occur first if the merges are read
  // from the lowest rank to the highest.
  static constexpr uint16_t kCommonMax = 256;

  // The two symbols at the border between the tokens of a merge: the last symbol of the left token,
  // and the first symbol of the right token.
  struct Joined {
    TokenId left = -1, right = -1;
    // Lowest rank of all merges with the symbols `left` and `right` at the border.
    int32_t rank = kNoRank;
  };

  // The hash table (with linear probing) of all merges with one left token. The key is the right
  // token. A bit filter rejects most keys that are not in the table.
  struct Group {
    // If the hash table has at most 16 slots: the bits of its bit filter. Otherwise: the index in
    // `filters_` of the first word of the bit filter.
    uint64_t filter = 0;
    uint32_t begin = 0;  // index in `entries_` of the first slot of the hash table
    // Number of slots of the hash table, minus 1. At least one slot is empty.
    uint32_t mask = 0;

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

  std::vector<Merge> merges_;  // all added merges, in the order of the calls of Add()
  std::vector<Group> groups_;  // groups_[left]: hash table of the merges with the left token `left`
  // Bit filters of the hash tables with more than 16 slots. A filter has one 64-bit word per 8
  // slots.
  std::vector<uint64_t> filters_;
  std::vector<Entry> entries_;  // slots of all hash tables (Group)
  // common_[token] is a number from 0 to kCommonMax - 1 if `token` is a common symbol. For every
  // other token, common_[token] is kCommonMax.
  std::vector<uint16_t> common_;
  // Element [common_[left] * kCommonMax + common_[right]] describes the merge of the common symbols
  // `left` and `right`.
  std::vector<SymbolPair> common_pairs_;
  // A symbol is a token that no merge makes. True if each token has exactly one possible first
  // symbol and one possible last symbol. If false, MayJoin() always returns true.
  bool knows_ends_ = true;
};

}  // namespace incipit
