// Merges symbols: of all neighbours that may merge, always those whose merge has the lowest rank,
// and of several with that rank the leftmost.
#pragma once

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
  // Up to here, looking through all pairs for the best one is the fastest way.
  static constexpr size_t kShortSymbolsMax = 48;

  // `model` outlives it.
  explicit BpeMerger(const BpeModel& model) : model_(model) {}

  // Merges in place; returns how many symbols are left, at the front.
  size_t Merge(std::span<TokenId> symbols) {
    if (symbols.size() <= kShortSymbolsMax) return MergeShort(symbols);
    return MergeLong(symbols, CanMergeInWindows(symbols));
  }

 private:
  // The places at which one merge may apply. Mostly they arrive in order.
  struct Places {
    int32_t rank = 0;
    bool is_waiting = false;  // in `waiting_ranks_`
    std::vector<int32_t> ordered;
    size_t next = 0;
    std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> late;

    bool empty() const { return next == ordered.size() && late.empty(); }
    void Add(int32_t place);
    int32_t TakeFirst();
  };

  int32_t RankOf(TokenId left, TokenId right) const;
  size_t MergeShort(std::span<TokenId> symbols) const;
  bool CanMergeInWindows(std::span<const TokenId> symbols) const;
  size_t MergeInWindows(std::span<TokenId> symbols);
  size_t MergeLong(std::span<TokenId> symbols, bool in_windows);
  size_t MergeEverywhere(int32_t rank, std::span<TokenId> symbols);
  size_t MergeByPlaces(std::span<TokenId> symbols);
  void AddPlace(int32_t place, int32_t rank);
  void MergeAt(int32_t place, int32_t rank, std::span<TokenId> symbols);

  // A token of a word, and the first of its symbols.
  struct Placed {
    TokenId token;
    size_t begin;
  };

  const BpeModel& model_;
  std::vector<Placed> placed_;
  std::vector<TokenId> window_;
  std::vector<int32_t> ranks_;  // ranks_[i]: of the merge of symbols i and i + 1, or kNoRank
  // The symbols as a linked list; -1 where it ends, and for a symbol that was merged away.
  std::vector<int32_t> next_, previous_;
  std::vector<int32_t> places_of_rank_;  // one more than the index into places_; 0 for none
  std::vector<Places> places_;
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> waiting_ranks_;
};

}  // namespace incipit
