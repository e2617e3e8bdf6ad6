// Merges symbols: of all neighbours that may merge, always those whose merge has the lowest rank,
// and of several with that rank the leftmost.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <vector>

#include "base/types.h"
#include "text/tokenizer/bpe_model.h"

namespace incipit {

// Working memory for merging, reused from word to word.
class BpeMerger {
 public:
  // Up to here, looking for the next merge among all pairs is the fastest way.
  static constexpr size_t kShortSymbolsMax = 64;

  // `model` outlives it.
  explicit BpeMerger(const BpeModel& model) : model_(model) {}

  // Merges in place; returns how many symbols are left, at the front.
  size_t Merge(std::span<TokenId> symbols) {
    if (symbols.size() <= kShortSymbolsMax) return MergeShort(symbols);
    return CanMergeInWindows(symbols) ? MergeInWindows(symbols) : MergeLong(symbols);
  }

 private:
  class ShortWord;

  size_t MergeShort(std::span<TokenId> symbols) const;
  bool CanMergeInWindows(std::span<const TokenId> symbols) const;
  size_t MergeInWindows(std::span<TokenId> symbols);
  int32_t RankOf(TokenId left, TokenId right) const;
  size_t MergeCommon(std::span<TokenId> symbols);
  size_t MergeEverywhere(int32_t rank, std::span<TokenId> symbols);
  size_t MergeLong(std::span<TokenId> symbols);
  void AddMerge(int32_t place, std::span<const TokenId> symbols);

  const BpeModel& model_;
  std::vector<TokenId> window_;
  std::vector<int32_t> ranks_;  // ranks_[i]: of the merge of symbols i and i + 1, or kNoRank
  // The symbols as a linked list; -1 where it ends, and for a symbol that was merged away.
  std::vector<int32_t> next_, previous_;
  // Merges that may apply, the next one on top.
  struct Candidate {
    int32_t rank, place;
    auto operator<=>(const Candidate&) const = default;
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

}  // namespace incipit
