#include "text/tokenizer/bpe_merger.h"

#include <algorithm>
#include <array>
#include <limits>

namespace incipit {
namespace {

// A merge is frequent in a word if it applies at least once per kEverywhereSpacing symbols. For
// such a merge, one pass over the whole word is the fastest method.
constexpr size_t kEverywhereSpacing = 8;
// Limits the time of MergeCommon(). All passes for rare (not frequent) merges read in total at most
// kRarePassesMax symbols per symbol of the word.
constexpr size_t kRarePassesMax = 6;
// Minimum number of symbols of a window: a part of a word that MergeInWindows() merges separately.
constexpr size_t kWindowMin = 64;
// MergeInWindows() merges windows (parts of a word) separately. In a window of 64 symbols, it
// discards the tokens of the last kWindowEnd symbols, because the symbols after the window may
// change these tokens. In a longer window, the discarded part is longer in proportion.
constexpr size_t kWindowEnd = 10;

}  // namespace

// Merges the symbols of one word with at most 64 symbols. Each possible merge has the key 64 * rank
// + (index of its left symbol). The merge with the least key applies next.
class BpeMerger::ShortWord {
 public:
  ShortWord(const MergeTable& merges, std::span<TokenId> symbols)
      : merges_(merges), symbols_(symbols), size_(MergePairs()) {
    const uint32_t num_blocks = (size_ + kBlock - 1) / kBlock;
    std::fill_n(keys_.begin(), num_blocks * kBlock, kNoKey);
    std::fill(least_.begin(), least_.end(), kNoKey);
    for (uint32_t i = 0; i < size_; ++i) {
      next_[i] = static_cast<uint8_t>(i + 1);
      previous_[i] = static_cast<uint8_t>(i - 1);
      if (i + 1 < size_) Look(i, symbols[i], symbols[i + 1]);
    }
  }

  // Merges all symbols. Writes the tokens to the front of `symbols_`, and returns the number of
  // tokens.
  size_t Merge() {
    for (uint32_t key = LeastKey(); key != kNoKey; key = LeastKey()) MergeAt(key % kPlaces);
    size_t num_left = 0;
    for (uint32_t i = 0; i < size_; i = next_[i]) symbols_[num_left++] = symbols_[i];
    return num_left;
  }

 private:
  static constexpr uint32_t kPlaces = 64, kBlock = 4, kNumBlocks = kShortSymbolsMax / kBlock;
  static constexpr uint32_t kNoKey = std::numeric_limits<uint32_t>::max();
  // Stands for a pair of symbols that MergeTable::FindCommon() does not know. MergePairs() merges
  // neither this pair nor the pairs that overlap it.
  static constexpr MergeTable::SymbolPair kUnknownPair = {
      .merged = -1, .rank = MergeTable::kNoRank, .rank_across = -1};
  static_assert(kShortSymbolsMax <= kPlaces && kNumBlocks == 16);
  static_assert(kMergesMax <= kNoKey / kPlaces);

  static uint32_t LeastOf(const uint32_t* keys) {
    return std::min(std::min(keys[0], keys[1]), std::min(keys[2], keys[3]));
  }
  uint32_t LeastKey() const {
    const uint32_t least = std::min(LeastOf(&least_[0]), LeastOf(&least_[4]));
    if (size_ <= 8 * kBlock) return least;
    return std::min(least, std::min(LeastOf(&least_[8]), LeastOf(&least_[12])));
  }

  // Merges two neighbouring symbols if their merge certainly applies before every merge that
  // overlaps these symbols. Returns the number of remaining symbols.
  uint32_t MergePairs() {
    constexpr static MergeTable::SymbolPair kNoPair;
    // pairs[i + 1] describes the merge of the symbols i and i + 1.
    std::array<const MergeTable::SymbolPair*, kShortSymbolsMax + 2> pairs;
    const size_t num_symbols = symbols_.size();
    pairs[0] = pairs[num_symbols] = pairs[num_symbols + 1] = &kNoPair;
    for (size_t i = 1; i < num_symbols; ++i) {
      const MergeTable::SymbolPair* pair = merges_.FindCommon(symbols_[i - 1], symbols_[i]);
      pairs[i] = pair != nullptr ? pair : &kUnknownPair;
    }
    uint32_t num_left = 0;
    bool is_gone = false;
    for (size_t i = 0; i < num_symbols; ++i) {
      const MergeTable::SymbolPair& pair = *pairs[i + 1];
      const bool merges_first = static_cast<int>(pair.rank < pairs[i]->rank_across) &
                                static_cast<int>(pair.rank <= pairs[i + 2]->rank_across);
      symbols_[num_left] = merges_first ? pair.merged : symbols_[i];
      num_left += is_gone ? 0 : 1;
      is_gone = merges_first;
    }
    return num_left;
  }

  // Stores the key of a possible merge. `place` is the index of the merge's left symbol. Does
  // nothing if `rank` is kNoRank. REQUIRES: keys_[place] contains no key.
  void AddKey(uint32_t place, int32_t rank, TokenId merged) {
    if (rank == MergeTable::kNoRank) return;
    const uint32_t key = static_cast<uint32_t>(rank) * kPlaces + place;
    uint32_t& least = least_[place / kBlock];
    keys_[place] = key;
    least = std::min(least, key);
    merged_[place] = merged;
    merges_.Prefetch(merged);
  }
  void Look(uint32_t place, TokenId left, TokenId right) {
    const MergeTable::Entry* merge = merges_.Find(left, right);
    if (merge != nullptr) AddKey(place, merge->rank, merge->merged);
  }
  void RemoveKey(uint32_t place) {
    keys_[place] = kNoKey;
    least_[place / kBlock] = LeastOf(&keys_[place / kBlock * kBlock]);
  }

  void MergeAt(uint32_t place) {
    const uint32_t gone = next_[place], after = next_[gone], before = previous_[place];
    const TokenId token = symbols_[place] = merged_[place];
    next_[place] = static_cast<uint8_t>(after);
    RemoveKey(place);
    RemoveKey(gone);
    if (place > 0) RemoveKey(before);
    if (after < size_) {
      previous_[after] = static_cast<uint8_t>(place);
      Look(place, token, symbols_[after]);
    }
    if (place > 0) Look(before, symbols_[before], token);
  }

  const MergeTable& merges_;
  std::span<TokenId> symbols_;
  uint32_t size_;
  std::array<uint32_t, kShortSymbolsMax> keys_;
  std::array<uint32_t, kNumBlocks> least_;
  // merged_[i] is the token into which symbol i and the next symbol can be merged.
  std::array<TokenId, kShortSymbolsMax> merged_;
  std::array<uint8_t, kShortSymbolsMax> next_, previous_;
};

size_t BpeMerger::MergeShort(std::span<TokenId> symbols) const {
  return ShortWord(model_.merges(), symbols).Merge();
}

// Returns true if MergeInWindows() can merge `symbols` and is faster than MergeLong(). MergeLong()
// is faster if at least half of the symbols equal the previous symbol, as in "aaaa".
bool BpeMerger::CanMergeInWindows(std::span<const TokenId> symbols) const {
  const PairCheck* check = model_.pair_check();
  if (check == nullptr) return false;
  size_t num_repeated = 0;
  for (size_t i = 1; i < symbols.size(); ++i) {
    num_repeated += symbols[i] == symbols[i - 1] ? 1 : 0;
  }
  return num_repeated * 2 < symbols.size() &&
         std::ranges::none_of(symbols, [&](TokenId symbol) { return check->IsMerged(symbol); });
}

// Merges a long word in windows (ranges of neighbouring symbols), each of them separately. Discards
// the last tokens of a window, because the symbols after the window may change these tokens.
//
// Uses PairCheck to test whether the first token of a window can follow the last token of the
// previous window. If not, merges the end of the previous windows again, in a larger window.
size_t BpeMerger::MergeInWindows(std::span<TokenId> symbols) {
  const PairCheck& check = *model_.pair_check();
  size_t begin = 0, size = kWindowMin / 2;
  size_t furthest = 0;  // largest value that `begin` had so far
  size_t num_kept = 0;  // number of final tokens, which are in symbols[0, num_kept)
  while (begin < symbols.size()) {
    const size_t end = std::min(symbols.size(), begin + std::max(size, kWindowMin));
    window_.assign(symbols.begin() + static_cast<ptrdiff_t>(begin),
                   symbols.begin() + static_cast<ptrdiff_t>(end));
    const size_t num_tokens =
        window_.size() <= kShortSymbolsMax ? MergeShort(window_) : MergeLong(window_);
    if (num_kept > 0 && !check.AreCompatible(model_.merges(), symbols[num_kept - 1], window_[0])) {
      size *= 2;
      for (const size_t old_begin = begin; num_kept > 0 && begin + size / 4 > old_begin;) {
        const TokenId token = symbols[--num_kept];
        begin -= check.LengthOf(token);
        check.Unmerge(token, symbols.subspan(begin, check.LengthOf(token)));
      }
      continue;
    }
    const size_t keep_end =
        end == symbols.size() ? end : end - (end - begin) * kWindowEnd / kWindowMin;
    for (size_t i = 0; i < num_tokens && begin < keep_end; ++i) {
      symbols[num_kept++] = window_[i];
      begin += check.LengthOf(window_[i]);
    }
    // Make the next window shorter only after progress (`begin` > `furthest`). Otherwise, windows
    // might never become long enough for a very long token.
    if (begin <= furthest) continue;
    furthest = begin;
    size = std::max(kWindowMin / 2, size / 2);
  }
  return num_kept;
}

int32_t BpeMerger::RankOf(TokenId left, TokenId right) const {
  return model_.merges().RankOf(left, right);
}

// Applies merges in ascending order of rank. Each merge is one pass over all symbols. Stops if no
// merge is possible, or if passes for rare merges have reached the limit of kRarePassesMax. Returns
// the number of remaining symbols.
size_t BpeMerger::MergeCommon(std::span<TokenId> symbols) {
  ranks_.resize(symbols.size());
  for (size_t i = 0; i + 1 < symbols.size(); ++i) ranks_[i] = RankOf(symbols[i], symbols[i + 1]);
  ranks_.back() = MergeTable::kNoRank;
  size_t rare_symbols_left = kRarePassesMax * symbols.size();
  while (true) {
    const auto begin = ranks_.begin(), end = begin + static_cast<ptrdiff_t>(symbols.size());
    const int32_t best = *std::min_element(begin, end);
    if (best == MergeTable::kNoRank) return symbols.size();
    const auto num_places = static_cast<size_t>(std::count(begin, end, best));
    if (num_places * kEverywhereSpacing < symbols.size()) {
      if (symbols.size() > rare_symbols_left) return symbols.size();
      rare_symbols_left -= symbols.size();
    }
    symbols = symbols.first(MergeEverywhere(best, symbols));
  }
}

// Applies the merge with the rank `rank` in one pass from left to right. If a new token makes a
// merge of lower rank possible, also applies that merge. Returns the number of remaining symbols.
// REQUIRES: before the pass, no merge of lower rank is possible.
size_t BpeMerger::MergeEverywhere(int32_t rank, std::span<TokenId> symbols) {
  const std::span<const MergeTable::Merge> merges = model_.merges().in_order();
  // symbols[0, num_done) are the result of the pass so far. Each merge joins the last symbol of
  // this result with its left or right neighbour.
  size_t num_done = 1;
  for (size_t read = 1; read < symbols.size();) {
    int32_t right = ranks_[read - 1];
    if (right > rank) {
      symbols[num_done] = symbols[read];
      ranks_[num_done - 1] = right;
      ++num_done;
      ++read;
      continue;
    }
    // Merge symbols[num_done - 1] with its left or right neighbour, while one of these two merges
    // has a rank of at most `rank`.
    int32_t left = MergeTable::kNoRank;
    while (std::min(left, right) <= rank) {
      if (left <= right) {
        --num_done;
        symbols[num_done - 1] = merges[left].merged;
      } else {
        symbols[num_done - 1] = merges[right].merged;
        ++read;
      }
      const TokenId merged = symbols[num_done - 1];
      left = num_done > 1 ? RankOf(symbols[num_done - 2], merged) : MergeTable::kNoRank;
      right = read < symbols.size() ? RankOf(merged, symbols[read]) : MergeTable::kNoRank;
    }
    if (num_done > 1) ranks_[num_done - 2] = left;
    if (read == symbols.size()) break;
    symbols[num_done] = symbols[read];
    ranks_[num_done - 1] = right;
    ++num_done;
    ++read;
  }
  ranks_[num_done - 1] = MergeTable::kNoRank;
  return num_done;
}

size_t BpeMerger::MergeLong(std::span<TokenId> symbols) {
  symbols = symbols.first(MergeCommon(symbols));
  const auto num_symbols = static_cast<int32_t>(symbols.size());
  next_.resize(symbols.size());
  previous_.resize(symbols.size());
  for (int32_t i = 0; i < num_symbols; ++i) {
    previous_[i] = i - 1;
    next_[i] = i + 1 < num_symbols ? i + 1 : -1;
    // ranks_[i] is the rank of the merge of the symbols i and i + 1.
    if (ranks_[i] != MergeTable::kNoRank) candidates_.push({.rank = ranks_[i], .place = i});
  }
  while (!candidates_.empty()) {
    const auto [rank, place] = candidates_.top();
    candidates_.pop();
    // Skip the candidate if another merge has changed one of its two symbols.
    const int32_t gone = symbols[place] < 0 ? -1 : next_[place];
    if (gone < 0) continue;
    const MergeTable::Entry* merge = model_.merges().Find(symbols[place], symbols[gone]);
    if (merge == nullptr || merge->rank != rank) continue;
    symbols[place] = merge->merged;
    symbols[gone] = -1;
    next_[place] = next_[gone];
    if (next_[place] >= 0) previous_[next_[place]] = place;
    AddMerge(place, symbols);
    if (previous_[place] >= 0) AddMerge(previous_[place], symbols);
  }
  size_t num_left = 0;
  for (int32_t i = 0; i >= 0; i = next_[i]) symbols[num_left++] = symbols[i];
  return num_left;
}

void BpeMerger::AddMerge(int32_t place, std::span<const TokenId> symbols) {
  if (next_[place] < 0) return;
  const int32_t rank = RankOf(symbols[place], symbols[next_[place]]);
  if (rank != MergeTable::kNoRank) candidates_.push({.rank = rank, .place = place});
}

}  // namespace incipit
