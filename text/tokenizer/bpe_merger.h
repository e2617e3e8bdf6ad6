// Merges symbols (single characters as tokens) into longer tokens by byte-pair encoding (BPE;
// Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units"). Each merge joins
// two neighbouring tokens. Merges apply in ascending order of rank. Merges of equal rank apply from
// left to right.
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

// Merges the symbols (single characters as tokens) of words, one word per call. The calls share
// working memory.
class BpeMerger {
 public:
  // Maximum number of symbols of a word that MergeShort() merges.
  static constexpr size_t kShortSymbolsMax = 64;

  // REQUIRES: `model` outlives the merger.
  explicit BpeMerger(const BpeModel& model) : model_(model) {}

  // Merges the symbols of one word. Writes the tokens to the front of `symbols`, and returns the
  // number of tokens.
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
  // Element i is the rank of the merge of the symbols i and i + 1, or kNoRank if there is no merge.
  std::vector<int32_t> ranks_;
  // Linked list of the symbols of a word. next_[i] is the index of the symbol after symbol i, and
  // previous_[i] is the index of the symbol before it. -1: there is no such symbol.
  std::vector<int32_t> next_, previous_;
  // A merge that may be possible. `place` is the index of its left symbol.
  struct Candidate {
    int32_t rank, place;
    auto operator<=>(const Candidate&) const = default;
  };
  // Possible merges in ascending order of rank; merges of equal rank from left to right.
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

}  // namespace incipit
