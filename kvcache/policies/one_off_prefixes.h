// Finds one-off prefixes: prefixes of prompts whose new blocks are rarely used again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace incipit {

// One system prompt may begin conversations that continue. Another system prompt may begin
// instructions that are sent once for each of a thousand documents. Number of uses and age do not
// distinguish the blocks after two such prefixes, but the prefix of the blocks does.
//
// For each prefix, OneOffPrefixes counts the runs of new blocks (series of new blocks of one
// request) after the prefix, and how many of these runs were used again. A prefix is one-off if
// fewer than kOneOffShare of the expected number of runs were used again. The expected number
// follows from the mean rate at which the runs after other prefixes are used again. A new run is
// added to the count gradually. A new prefix is therefore not one-off before its users had time to
// return.
//
// At most 256 prefixes are known. A new prefix replaces the prefix with the fewest runs in its set.
// All requests without a prefix (0) are counted together, like requests with one common prefix.
class OneOffPrefixes {
 public:
  // Counts a run of new blocks (the new blocks of one request) after `prefix`, at time `now`. `now`
  // may decrease slightly between calls.
  void CountNew(uint32_t prefix, double now);
  // Counts that the new blocks of one request after `prefix`, or the share `part` of these blocks,
  // were used again at the age `age`. `age` uses the same clock as CountNew.
  void CountReuse(uint32_t prefix, float part, double age);
  // Returns whether the new blocks after `prefix` are rarely used again.
  bool Contains(uint32_t prefix) const;

 private:
  static constexpr double kOneOffShare = 1.0 / 3;
  // Weight of the assumption that a prefix is like the other prefixes, in requests whose new blocks
  // were used again. No prefix is one-off before more than this number of requests had new blocks
  // that were used again.
  static constexpr double kPriorReused = 3;
  // If a prefix has more counted requests than kRunsMax, its counts are halved, because workloads
  // change.
  static constexpr float kRunsMax = 256;
  // If a new prefix replaces a known prefix, the counts of the other prefixes in the set are
  // multiplied by kKept. Without this decay, prefixes that no longer occur would stay for ever.
  static constexpr float kKept = 0.9375F;
  // Mean delay with which the new blocks of a request are counted, in multiples of their mean age
  // at reuse. The mean age is weighted by age, so that quick returns of some users do not hide late
  // returns of others.
  static constexpr double kLag = 3;
  // Share by which one reuse lowers the weight of earlier ages.
  static constexpr double kAgeStep = 0.01;
  static constexpr size_t kSets = 64, kWays = 4;

  struct Entry {
    uint32_t prefix = 0;
    float coming = 0;  // number of requests whose new blocks are not counted yet
    float runs = 0, reused = 0;
    double counted_at = 0;
  };

  static size_t SetOf(uint32_t prefix) { return prefix * 0x9E3779B1U / (~0U / kSets + 1); }
  // Returns the share of `entry` in the sum sum_rates_: its reuses times its reuse rate.
  static double RatesOf(const Entry& entry);
  const Entry* Find(uint32_t prefix) const;
  Entry* Find(uint32_t prefix) { return const_cast<Entry*>(std::as_const(*this).Find(prefix)); }
  Entry& FindOrReplace(uint32_t prefix);
  void Set(Entry& entry, float runs, float reused);

  std::array<std::array<Entry, kWays>, kSets> sets_{};
  // Sums over all prefixes: sum_reused_ is the number of requests whose new blocks were used again,
  // and sum_rates_ is the sum of RatesOf.
  double sum_reused_ = 0, sum_rates_ = 0;
  // Decaying sums of the ages of new blocks at their reuse.
  double sum_ages_ = 0, sum_squared_ages_ = 0;
};

}  // namespace incipit
