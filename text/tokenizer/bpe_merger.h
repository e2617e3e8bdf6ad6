// Merges the symbols (characters as tokens) of a word into tokens. Of all neighbours that can
// merge, the pair with the lowest rank merges first. Of several pairs with the lowest rank, the
// leftmost pair merges first.
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

// Merges words and holds the working memory, which is reused for the next word.
class BpeMerger {
 public:
  // Up to here, looking for the next merge among all pairs is the fastest way.
  static constexpr size_t kShortSymbolsMax = 64;

  // REQUIRES: `model` outlives the merger.
  explicit BpeMerger(const BpeModel& model) : model_(model) {}

  // Merges `symbols` in place. Returns the number of tokens, which are at the front of `symbols`.
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
  std::vector<int32_t> ranks_;  // ranks_[i]: rank of the merge of symbols i and i + 1, or kNoRank
  // Linked list of the symbols: index of the next and of the previous symbol, -1 at the ends.
  std::vector<int32_t> next_, previous_;
  // Merges that may apply, the next one on top.
  struct Candidate {
    int32_t rank, place;
    auto operator<=>(const Candidate&) const = default;
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

}  // namespace incipit
