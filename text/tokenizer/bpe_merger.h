// Merges the symbols (characters as tokens) of a word into tokens, as byte-pair encoding (BPE)
// defines (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units"). Of all
// neighbours that can merge, the pair with the lowest rank merges first. Of several pairs with the
// lowest rank, the leftmost pair merges first.
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

// Merges the symbols of words into tokens. All words share the working memory of the merger.
class BpeMerger {
 public:
  // Maximum number of symbols of a short word. In a short word, a search among all pairs is the
  // fastest way to find the next merge.
  static constexpr size_t kShortSymbolsMax = 64;

  // REQUIRES: `model` outlives the merger.
  explicit BpeMerger(const BpeModel& model) : model_(model) {}

  // Merges `symbols` in place. Writes the tokens to the front of `symbols` and returns the number
  // of tokens.
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
  // Links of the list of symbols: index of the next or previous symbol, -1 at an end of the list.
  std::vector<int32_t> next_, previous_;
  // A merge that may apply: the rank of the merge and the index of its left symbol.
  struct Candidate {
    int32_t rank, place;
    auto operator<=>(const Candidate&) const = default;
  };
  // Candidates in order of rank and, for equal ranks, from left to right.
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

}  // namespace incipit
