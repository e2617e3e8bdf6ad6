// The merges of a byte-pair encoding, by the two tokens that they join.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/types.h"

namespace incipit {

// Which two neighbours become which token, and how early; the hot look-up of BPE. It also knows
// which symbols a merge may ever join, by what the two tokens of a merge end and begin with.
class MergeTable {
 public:
  static constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();
  struct Merge {
    TokenId left = -1, right = -1;
    int32_t rank = kNoRank;  // kNoRank: the two are joined only as parts of longer tokens
  };

  // A later merge of the same pair replaces an earlier one, but the rank of the earlier one is not
  // used again. REQUIRES: less than kMergesMax so far.
  void Add(TokenId left, TokenId right, TokenId merged);
  // Notes which symbols the merges may join. `num_tokens` is more than any id.
  void FinishAdding(size_t num_tokens);

  // Null if no merge ever joins the two.
  const Merge* Find(TokenId left, TokenId right) const {
    const uint64_t hash = HashOf(left, right);
    if ((filter_[FilterWordOf(hash)] >> FilterBitOf(hash) & 1) == 0) return nullptr;
    for (size_t slot = SlotOf(hash);; slot = (slot + 1) & mask_) {
      const Merge& merge = slots_[slot];
      if (merge.left == left && merge.right == right) return &merge;
      if (merge.left < 0) return nullptr;
    }
  }
  TokenId MergedAt(int32_t rank) const { return merged_[rank]; }
  size_t num_ranks() const { return merged_.size(); }
  // Returns the merges that apply, in the order of their ranks.
  std::vector<Merge> InOrder() const;

 private:
  static constexpr size_t kSlotsMin = 16;
  static constexpr size_t kFilterBitsPerSlot = 4;

  static uint64_t HashOf(TokenId left, TokenId right) {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    return key * 0x9E3779B97F4A7C15u;
  }
  size_t SlotOf(uint64_t hash) const { return static_cast<size_t>(hash >> 32) & mask_; }
  size_t FilterWordOf(uint64_t hash) const {
    return static_cast<size_t>(hash >> 38) & (filter_.size() - 1);
  }
  static int FilterBitOf(uint64_t hash) { return static_cast<int>(hash >> 32 & 63); }
  Merge& SlotFor(TokenId left, TokenId right);

  std::vector<Merge> slots_ = std::vector<Merge>(kSlotsMin);  // open addressing, at most half full
  size_t mask_ = kSlotsMin - 1;
  // A bit for each used slot, by hash. Most look-ups find nothing, and the bits, unlike the slots,
  // fit into a core's cache.
  std::vector<uint64_t> filter_ = std::vector<uint64_t>(kSlotsMin * kFilterBitsPerSlot / 64);
  size_t num_used_ = 0;
  std::vector<TokenId> merged_;  // by rank
};

}  // namespace incipit
