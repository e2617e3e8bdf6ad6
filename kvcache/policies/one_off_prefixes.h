// Finds starts of prompts (such as system prompts) after which requests compute blocks that are
// rarely used again. Such a start of a prompt is called a one-off prefix.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace incipit {

// Finds starts of prompts (such as system prompts) after which requests compute blocks that are
// rarely used again: less than kOneOffShare times as often as after other starts. Such a start is
// called a one-off prefix.
//
// At most 256 prefixes are stored. Requests without a common prefix have the prefix 0.
class OneOffPrefixes {
 public:
  // Counts a request that computes new blocks after `prefix`, the hash of a common start of many
  // prompts. `now` is the time of the request, from PacedClock::now(). `now` may decrease slightly
  // between calls.
  void CountNew(uint32_t prefix, double now);
  // Counts that blocks after `prefix` (the hash of a common start of many prompts) were used again.
  // `part`: share of the blocks of one request that were used again. `age`: time since the last use
  // of these blocks, in the unit of PacedClock::now().
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
  // The blocks of a request are used again only later, so CountNew() counts a request gradually,
  // during a delay. kLag is the length of the delay, divided by the mean time until blocks are used
  // again.
  static constexpr double kLag = 3;
  // Each reuse multiplies sum_ages_ and sum_squared_ages_ by 1 - kAgeStep, so that earlier reuses
  // have less weight.
  static constexpr double kAgeStep = 0.01;
  static constexpr size_t kSets = 64, kWays = 4;

  struct Entry {
    uint32_t prefix = 0;
    // Number of recent requests with this prefix that CountNew() has not added to `runs` yet. The
    // number is a fraction because requests are added gradually.
    float coming = 0;
    float runs = 0, reused = 0;
    double counted_at = 0;
  };

  static size_t SetOf(uint32_t prefix) { return prefix * 0x9E3779B1U / (~0U / kSets + 1); }
  // Returns r * r / n. n is the number of requests (Entry::runs). r is the number of these requests
  // whose blocks were used again (Entry::reused). `runs` counts a request later than `reused`, so n
  // may be smaller than r. n is then r.
  static double RatesOf(const Entry& entry);
  const Entry* Find(uint32_t prefix) const;
  Entry* Find(uint32_t prefix) { return const_cast<Entry*>(std::as_const(*this).Find(prefix)); }
  Entry& FindOrReplace(uint32_t prefix);
  void Set(Entry& entry, float runs, float reused);

  std::array<std::array<Entry, kWays>, kSets> sets_{};
  // Sums over the counts of all prefixes. sum_reused_: number of requests whose blocks were used
  // again. sum_rates_: sum of the results of RatesOf().
  double sum_reused_ = 0, sum_rates_ = 0;
  // Weighted sum of the times until blocks were used again, and weighted sum of the squares of
  // these times. Recent times have more weight.
  double sum_ages_ = 0, sum_squared_ages_ = 0;
};

}  // namespace incipit
