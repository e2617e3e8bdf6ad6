#include "cli/analysis/offline_optimum.h"

#include <bit>
#include <cstddef>
#include <vector>

#include "base/check.h"

namespace incipit {
namespace {

// The number of a block use. Each block in each prompt is one block use. The block uses are
// numbered from 0 in the order of the log.
using UseNumber = uint32_t;
constexpr UseNumber kNoUse = 0xffffffff;
static_assert(kLoggedBlocksMax < kNoUse);

// A set of numbers in [0, size), stored as a bitmap. Smaller bitmaps mark the 64-bit words that are
// not 0, so that Max() reads few words.
class UseSet {
 public:
  explicit UseSet(size_t size) {
    do {
      size = (size + 63) / 64;
      levels_.emplace_back(size);
    } while (size > 1);
  }

  bool Has(size_t number) const { return (levels_[0][number / 64] >> number % 64 & 1) != 0; }
  void Insert(size_t number) {
    for (auto& level : levels_) {
      uint64_t& word = level[number / 64];
      const bool was_empty = word == 0;
      word |= uint64_t{1} << number % 64;
      if (!was_empty) return;
      number /= 64;
    }
  }
  void Erase(size_t number) {
    for (auto& level : levels_) {
      uint64_t& word = level[number / 64];
      word &= ~(uint64_t{1} << number % 64);
      if (word != 0) return;
      number /= 64;
    }
  }
  // Returns the largest number in the set. REQUIRES: the set is not empty.
  size_t Max() const {
    size_t number = 0;
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
      number = number * 64 + 63 - static_cast<size_t>(std::countl_zero((*level)[number]));
    }
    return number;
  }

 private:
  // levels_[0] is the bitmap of the set. Bit i of levels_[n + 1] is 1 if the 64-bit word i of
  // levels_[n] is not 0.
  std::vector<std::vector<uint64_t>> levels_;
};

// Returns an array whose element i describes block use i: the number of the next use of the same
// block, or kNoUse if the block is not used again.
std::vector<UseNumber> NextUses(const BlockLog& log) {
  size_t num_uses = 0;
  for (size_t r = 0; r < log.num_requests(); ++r) num_uses += log.chain(r).size();
  std::vector<UseNumber> next(num_uses);
  std::vector<UseNumber> first_after(log.num_nodes(), kNoUse);
  size_t use = num_uses;
  for (size_t r = log.num_requests(); r-- > 0;) {
    const auto chain = log.chain(r);
    for (size_t i = chain.size(); i-- > 0;) {
      next[--use] = first_after[chain[i]];
      first_after[chain[i]] = static_cast<UseNumber>(use);
    }
  }
  return next;
}

}  // namespace

int64_t OfflineOptimumHits(const BlockLog& log, int64_t capacity) {
  INCIPIT_CHECK(capacity >= 0);
  if (capacity == 0) return 0;
  const std::vector<UseNumber> next = NextUses(log);
  UseSet kept(next.size());
  int64_t num_kept = 0, num_hits = 0;
  for (size_t use = 0; use < next.size(); ++use) {
    // Uses are numbered from 0. For each cached block, `kept` contains the number of its next use.
    // If `kept` contains `use`, this use is a hit.
    if (kept.Has(use)) {
      kept.Erase(use);
      --num_kept;
      ++num_hits;
    }
    if (next[use] == kNoUse) continue;
    if (num_kept == capacity) {
      const size_t furthest = kept.Max();
      if (furthest < next[use]) continue;
      kept.Erase(furthest);
      --num_kept;
    }
    kept.Insert(next[use]);
    ++num_kept;
  }
  return num_hits;
}

}  // namespace incipit
