#include "text/tokenizer/bpe_merger.h"

#include <algorithm>
#include <array>

namespace incipit {
namespace {

// A merge that applies at every so many symbols or more is worth a pass over all of them.
constexpr size_t kEverywhereSpacing = 8;
// Passes for rarer merges are worth it as long as they look at no more than so many symbols for
// each that there was: often a common merge waits behind them.
constexpr size_t kRarePassesMax = 6;
// Symbols of a window, as long as its tokens fit to those before it.
constexpr size_t kWindowMin = 24;

}  // namespace

int32_t BpeMerger::RankOf(TokenId left, TokenId right) const {
  const MergeTable::Merge* merge = model_.merges().Find(left, right);
  return merge == nullptr ? MergeTable::kNoRank : merge->rank;
}

size_t BpeMerger::MergeShort(std::span<TokenId> symbols) const {
  size_t num_symbols = symbols.size();
  std::array<int32_t, kShortSymbolsMax> ranks;  // ranks[i]: of symbols i and i + 1
  for (size_t i = 0; i + 1 < num_symbols; ++i) ranks[i] = RankOf(symbols[i], symbols[i + 1]);
  while (num_symbols > 1) {
    const auto best = std::min_element(ranks.begin(), ranks.begin() + num_symbols - 1);
    if (*best == MergeTable::kNoRank) break;
    const auto place = static_cast<size_t>(best - ranks.begin());
    symbols[place] = model_.merges().MergedAt(*best);
    std::copy(symbols.begin() + place + 2, symbols.begin() + num_symbols,
              symbols.begin() + place + 1);
    std::copy(ranks.begin() + place + 1, ranks.begin() + num_symbols - 1, ranks.begin() + place);
    --num_symbols;
    if (place > 0) ranks[place - 1] = RankOf(symbols[place - 1], symbols[place]);
    if (place + 1 < num_symbols) ranks[place] = RankOf(symbols[place], symbols[place + 1]);
  }
  return num_symbols;
}

bool BpeMerger::CanMergeInWindows(std::span<const TokenId> symbols) const {
  const PairCheck* check = model_.pair_check();
  return check != nullptr &&
         std::ranges::none_of(symbols, [&](TokenId symbol) { return check->IsMerged(symbol); });
}

// Merges some symbols as if there were no others, and keeps the tokens in the first three quarters:
// mostly, what comes later does not change them. The next window begins behind them. If its first
// token is not compatible with the last one kept, it begins earlier and is twice as long. So each
// window brings the word forward by a part of its size, and at worst becomes the whole word.
size_t BpeMerger::MergeInWindows(std::span<TokenId> symbols) {
  const PairCheck& check = *model_.pair_check();
  placed_.clear();
  size_t begin = 0, size = kWindowMin;
  while (begin < symbols.size()) {
    const size_t end = std::min(symbols.size(), begin + size);
    window_.assign(symbols.begin() + static_cast<ptrdiff_t>(begin),
                   symbols.begin() + static_cast<ptrdiff_t>(end));
    const size_t num_tokens =
        window_.size() <= kShortSymbolsMax ? MergeShort(window_) : MergeLong(window_, false);
    if (!placed_.empty() && !check.AreCompatible(placed_.back().token, window_[0])) {
      size *= 2;
      for (const size_t old_begin = begin; !placed_.empty() && begin + size / 4 > old_begin;) {
        begin = placed_.back().begin;
        placed_.pop_back();
      }
      continue;
    }
    const size_t keep_end = end == symbols.size() ? end : begin + (end - begin) / 4 * 3;
    for (size_t i = 0; i < num_tokens && begin < keep_end; ++i) {
      placed_.push_back({.token = window_[i], .begin = begin});
      const size_t length = check.LengthOf(window_[i]);
      for (size_t done = 0; done < length; ++begin) done += check.LengthOf(symbols[begin]);
    }
    size = std::max(kWindowMin, size - size / 8);
  }
  std::ranges::transform(placed_, symbols.begin(), &Placed::token);
  return placed_.size();
}

size_t BpeMerger::MergeLong(std::span<TokenId> symbols, bool in_windows) {
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
      if (in_windows) return MergeInWindows(symbols);
      if (symbols.size() > rare_symbols_left) return MergeByPlaces(symbols);
      rare_symbols_left -= symbols.size();
    }
    symbols = symbols.first(MergeEverywhere(best, symbols));
  }
}

// One pass from left to right that merges all pairs of `rank`, the lowest there is. What a merge
// makes may have a lower rank, or the same further left; then it is next. Everything behind the
// pass therefore has a higher rank.
size_t BpeMerger::MergeEverywhere(int32_t rank, std::span<TokenId> symbols) {
  size_t num_done = 1;  // symbols[0 .. num_done) are done but for the last one
  for (size_t read = 1; read < symbols.size();) {
    int32_t right = ranks_[read - 1];
    if (right > rank) {
      symbols[num_done] = symbols[read];
      ranks_[num_done - 1] = right;
      ++num_done;
      ++read;
      continue;
    }
    // Merge the last symbol with the one that is read next, and then whatever that makes possible.
    int32_t left = MergeTable::kNoRank;
    while (std::min(left, right) <= rank) {
      if (left <= right) {
        --num_done;
        symbols[num_done - 1] = model_.merges().MergedAt(left);
      } else {
        symbols[num_done - 1] = model_.merges().MergedAt(right);
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

void BpeMerger::Places::Add(int32_t place) {
  if (ordered.empty() || place >= ordered.back()) {
    ordered.push_back(place);
  } else {
    late.push(place);
  }
}

int32_t BpeMerger::Places::TakeFirst() {
  if (next == ordered.size() || (!late.empty() && late.top() < ordered[next])) {
    const int32_t place = late.top();
    late.pop();
    return place;
  }
  return ordered[next++];
}

// A heap of all pairs would do. But all pairs of a rank are the same merge and arrive nearly in
// order, so that a list per rank and a heap of ranks take almost linear time.
size_t BpeMerger::MergeByPlaces(std::span<TokenId> symbols) {
  const auto num_symbols = static_cast<int32_t>(symbols.size());
  next_.resize(symbols.size());
  previous_.resize(symbols.size());
  places_of_rank_.resize(model_.merges().num_ranks());
  for (int32_t i = 0; i < num_symbols; ++i) {
    previous_[i] = i - 1;
    next_[i] = i + 1 < num_symbols ? i + 1 : -1;
    AddPlace(i, ranks_[i]);
  }
  while (!waiting_ranks_.empty()) {
    const int32_t rank = waiting_ranks_.top();
    const int32_t index = places_of_rank_[rank] - 1;
    // A merge may make a pair of an earlier rank, which then goes first.
    while (!places_[index].empty() && waiting_ranks_.top() == rank) {
      MergeAt(places_[index].TakeFirst(), rank, symbols);
    }
    if (places_[index].empty() && waiting_ranks_.top() == rank) {
      waiting_ranks_.pop();
      places_[index].is_waiting = false;
    }
  }
  for (const Places& places : places_) places_of_rank_[places.rank] = 0;
  places_.clear();
  size_t num_left = 0;
  for (int32_t i = 0; i >= 0; i = next_[i]) symbols[num_left++] = symbols[i];
  return num_left;
}

void BpeMerger::AddPlace(int32_t place, int32_t rank) {
  if (rank == MergeTable::kNoRank) return;
  int32_t& index = places_of_rank_[rank];
  if (index == 0) {
    places_.emplace_back().rank = rank;
    index = static_cast<int32_t>(places_.size());
  }
  Places& places = places_[index - 1];
  places.Add(place);
  if (!places.is_waiting) {
    places.is_waiting = true;
    waiting_ranks_.push(rank);
  }
}

void BpeMerger::MergeAt(int32_t place, int32_t rank, std::span<TokenId> symbols) {
  // The pair may have changed since the place was noted.
  const int32_t right = symbols[place] < 0 ? -1 : next_[place];
  if (right < 0 || RankOf(symbols[place], symbols[right]) != rank) return;
  symbols[place] = model_.merges().MergedAt(rank);
  symbols[right] = -1;
  next_[place] = next_[right];
  if (next_[place] >= 0) {
    previous_[next_[place]] = place;
    AddPlace(place, RankOf(symbols[place], symbols[next_[place]]));
  }
  if (previous_[place] >= 0) {
    AddPlace(previous_[place], RankOf(symbols[previous_[place]], symbols[place]));
  }
}

}  // namespace incipit
