#include "engine/text/bpe_encoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>

#include "base/status.h"

namespace incipit {
namespace {

// Up to here, looking through all pairs for the best one is faster than keeping them in order.
constexpr size_t kShortSymbolsMax = 64;
constexpr size_t kRememberedWords = 4096;
constexpr size_t kRememberFromBytes = 2048;
constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();

}  // namespace

BpeEncoder::BpeEncoder(const BpeModel& model, size_t text_bytes) : model_(model) {
  if (text_bytes >= kRememberFromBytes) remembered_.resize(kRememberedWords);
}

absl::Status BpeEncoder::Encode(std::string_view word, std::vector<TokenId>& ids) {
  if (remembered_.empty() || word.size() > kRememberedBytesMax) return EncodeNew(word, ids);
  Remembered& slot = remembered_[std::hash<std::string_view>()(word) % kRememberedWords];
  if (slot.length == word.size() && std::memcmp(slot.bytes, word.data(), word.size()) == 0) {
    for (uint32_t i = 0; i < slot.num_ids; ++i) ids.push_back(ids[slot.ids_begin + i]);
    return absl::OkStatus();
  }
  const size_t begin = ids.size();
  INCIPIT_RETURN_IF_ERROR(EncodeNew(word, ids));
  slot.length = static_cast<uint32_t>(word.size());
  slot.num_ids = static_cast<uint32_t>(ids.size() - begin);
  slot.ids_begin = begin;
  std::memcpy(slot.bytes, word.data(), word.size());
  return absl::OkStatus();
}

absl::Status BpeEncoder::EncodeNew(std::string_view word, std::vector<TokenId>& ids) {
  if (word.empty()) return absl::OkStatus();
  if (const auto id = model_.WholeWord(word)) {
    ids.push_back(*id);
    return absl::OkStatus();
  }
  const size_t begin = ids.size();
  INCIPIT_RETURN_IF_ERROR(model_.AppendCharacters(word, ids));
  const size_t num_symbols = ids.size() - begin;
  if (num_symbols <= kShortSymbolsMax) {
    MergeShort(ids, begin);
  } else {
    MergeLong(ids, begin);
  }
  return absl::OkStatus();
}

void BpeEncoder::MergeShort(std::vector<TokenId>& ids, size_t begin) const {
  size_t num_symbols = ids.size() - begin;
  TokenId* symbols = ids.data() + begin;
  const MergeTable& merges = model_.merges();
  std::array<const MergeTable::Merge*, kShortSymbolsMax> pairs;  // pairs[i]: symbols i and i + 1
  for (size_t i = 0; i + 1 < num_symbols; ++i) pairs[i] = merges.Find(symbols[i], symbols[i + 1]);
  while (num_symbols > 1) {
    size_t best = 0;
    int32_t best_rank = kNoRank;
    for (size_t i = 0; i + 1 < num_symbols; ++i) {
      if (pairs[i] != nullptr && pairs[i]->rank < best_rank) {
        best = i;
        best_rank = pairs[i]->rank;
      }
    }
    if (best_rank == kNoRank) break;
    symbols[best] = pairs[best]->merged;
    for (size_t i = best + 1; i + 1 < num_symbols; ++i) {
      symbols[i] = symbols[i + 1];
      pairs[i - 1] = pairs[i];
    }
    --num_symbols;
    if (best > 0) pairs[best - 1] = merges.Find(symbols[best - 1], symbols[best]);
    if (best + 1 < num_symbols) pairs[best] = merges.Find(symbols[best], symbols[best + 1]);
  }
  ids.resize(begin + num_symbols);
}

void BpeEncoder::Places::Add(int32_t place) {
  if (ordered.empty() || place >= ordered.back()) {
    ordered.push_back(place);
  } else {
    late.push(place);
  }
}

int32_t BpeEncoder::Places::TakeFirst() {
  if (next == ordered.size() || (!late.empty() && late.top() < ordered[next])) {
    const int32_t place = late.top();
    late.pop();
    return place;
  }
  return ordered[next++];
}

// Merges are taken by rank and, within a rank, from left to right. A binary heap of all pairs does
// that in O(n log n); since all pairs of a rank are the same merge and arrive nearly in order, a
// list per rank and a heap of ranks does it in almost linear time.
void BpeEncoder::MergeLong(std::vector<TokenId>& ids, size_t begin) {
  const auto num_symbols = static_cast<int32_t>(ids.size() - begin);
  symbols_.assign(ids.begin() + static_cast<ptrdiff_t>(begin), ids.end());
  next_.resize(num_symbols);
  previous_.resize(num_symbols);
  places_of_rank_.resize(model_.num_ranks());
  for (int32_t i = 0; i < num_symbols; ++i) {
    previous_[i] = i - 1;
    next_[i] = i + 1 < num_symbols ? i + 1 : -1;
  }
  for (int32_t i = 0; i + 1 < num_symbols; ++i) AddPlace(i, i + 1);

  while (!ranks_.empty()) {
    const int32_t rank = ranks_.top();
    const int32_t index = places_of_rank_[rank] - 1;
    // A merge may make a pair of an earlier rank, which then goes first.
    while (!places_[index].empty() && ranks_.top() == rank) {
      ApplyMerge(places_[index].TakeFirst(), rank);
    }
    if (places_[index].empty() && ranks_.top() == rank) {
      ranks_.pop();
      places_[index].waiting = false;
    }
  }
  for (const Places& places : places_) places_of_rank_[places.rank] = 0;
  places_.clear();

  ids.resize(begin);
  for (int32_t i = 0; i >= 0; i = next_[i]) ids.push_back(symbols_[i]);
}

void BpeEncoder::AddPlace(int32_t left, int32_t right) {
  const MergeTable::Merge* merge = model_.merges().Find(symbols_[left], symbols_[right]);
  if (merge == nullptr) return;
  int32_t& index = places_of_rank_[merge->rank];
  if (index == 0) {
    places_.emplace_back().rank = merge->rank;
    index = static_cast<int32_t>(places_.size());
  }
  Places& places = places_[index - 1];
  places.Add(left);
  if (!places.waiting) {
    places.waiting = true;
    ranks_.push(merge->rank);
  }
}

void BpeEncoder::ApplyMerge(int32_t place, int32_t rank) {
  if (symbols_[place] < 0) return;  // merged into its left neighbour meanwhile
  const int32_t right = next_[place];
  if (right < 0) return;
  const MergeTable::Merge* merge = model_.merges().Find(symbols_[place], symbols_[right]);
  if (merge == nullptr || merge->merged != model_.MergedAt(rank)) return;
  symbols_[place] = merge->merged;
  symbols_[right] = -1;
  next_[place] = next_[right];
  if (next_[place] >= 0) previous_[next_[place]] = place;
  if (previous_[place] >= 0) AddPlace(previous_[place], place);
  if (next_[place] >= 0) AddPlace(place, next_[place]);
}

}  // namespace incipit
