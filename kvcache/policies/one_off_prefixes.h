// Finds starts of prompts (such as system prompts) after which requests compute blocks that are
// rarely used again. Such a start of a prompt is called a one-off prefix.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace incipit {

// Finds one-off prefixes. A prefix is a start of many prompts, such as a system prompt. A prefix is
// one-off if the blocks that requests compute after the prefix are rarely used again. Rarely means:
// less than kOneOffShare times as often as the mean of all prefixes.
//
// At most 256 prefixes are stored. Requests without a common prefix have the prefix 0.
class OneOffPrefixes {
 public:
  // Counts a request that computes new blocks after `prefix`, the hash of a common start of many
  // prompts. `now` is the time of the request, from PacedClock::now(). `now` may decrease slightly
  // between calls.
  void CountNew(uint32_t prefix, double now);
  // Counts a reuse of blocks that follow `prefix`, the hash of a common start of many prompts.
  // `part`: number of earlier requests whose blocks are reused; 0.5: half of the blocks of one
  // request. `age`: time since the last use of the blocks, in the unit of PacedClock::now().
  void CountReuse(uint32_t prefix, float part, double age);
  // Returns true if `prefix` (the hash of a common start of many prompts) is one-off: the blocks
  // that requests compute after the prefix are rarely used again.
  bool Contains(uint32_t prefix) const;

 private:
  static constexpr double kOneOffShare = 1.0 / 3;
  // Contains() compares the counted reuses of a prefix with the expected reuses. It first adds this
  // constant to both numbers, so that a prefix with few requests is not called one-off.
  static constexpr double kPriorReused = 3;
  // If more than this number of requests are counted for a prefix, the counts of the prefix are
  // halved.
  static constexpr float kRunsMax = 256;
  // The table stores prefixes in sets. If a new prefix replaces a stored prefix, the counts of the
  // other prefixes in the set are multiplied by kKept.
  static constexpr float kKept = 0.9375F;
  // Entry::runs (number of requests) counts a new request gradually: from 0 at its start to 1 after
  // kLag * (mean time until blocks are reused).
  static constexpr double kLag = 3;
  // Each reuse multiplies sum_ages_ and sum_squared_ages_ by 1 - kAgeStep, so that earlier reuses
  // have less weight.
  static constexpr double kAgeStep = 0.01;
  static constexpr size_t kSets = 64, kWays = 4;

  struct Entry {
    uint32_t prefix = 0;
    // `runs` is the number of requests with the prefix. A new request is first counted in `coming`.
    // Over time, a growing fraction of the request is counted in `runs` instead.
    float coming = 0;
    float runs = 0, reused = 0;
    double counted_at = 0;
  };

  static size_t SetOf(uint32_t prefix) { return prefix * 0x9E3779B1U / (~0U / kSets + 1); }
  // Returns r * r / max(n, r). r is the number of requests whose blocks were used again
  // (Entry::reused). n is the number of all requests (Entry::runs).
  static double RatesOf(const Entry& entry);
  const Entry* Find(uint32_t prefix) const;
  Entry* Find(uint32_t prefix) { return const_cast<Entry*>(std::as_const(*this).Find(prefix)); }
  Entry& FindOrReplace(uint32_t prefix);
  void Set(Entry& entry, float runs, float reused);

  std::array<std::array<Entry, kWays>, kSets> sets_{};
  // sum_reused_: sum of Entry::reused over all prefixes. sum_rates_: sum of RatesOf() over all
  // prefixes.
  double sum_reused_ = 0, sum_rates_ = 0;
  // Weighted sum of the times until blocks were used again, and weighted sum of the squares of
  // these times. Recent times have more weight.
  double sum_ages_ = 0, sum_squared_ages_ = 0;
};

}  // namespace incipit
