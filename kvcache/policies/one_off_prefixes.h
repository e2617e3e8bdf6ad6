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
// For each prefix, OneOffPrefixes counts the runs of new blocks after the prefix, and how many of
// these runs were used again. A prefix is one-off if fewer than kOneOffShare of the expected number
// of runs were used again. The expected number follows from the mean rate at which the runs after
// other prefixes are used again. A new run is added to the count gradually. A new prefix is
// therefore not one-off before its users had time to return.
//
// At most 256 prefixes are known. A new prefix replaces the prefix with the fewest runs in its set.
// All requests without a prefix (0) are counted together, like requests with one common prefix.
class OneOffPrefixes {
 public:
  // Counts a run of new blocks after `prefix`, at time `now`. `now` may decrease slightly between
  // calls.
  void CountNew(uint32_t prefix, double now);
  // Counts that a run of new blocks after `prefix`, or the share `part` of a run, was used again at
  // the age `age`. `age` uses the same clock as CountNew.
  void CountReuse(uint32_t prefix, float part, double age);
  // Returns whether `prefix` is one-off.
  bool Contains(uint32_t prefix) const;

 private:
  static constexpr double kOneOffShare = 1.0 / 3;
  // Weight of the assumption that a prefix is like the other prefixes, in runs that were used
  // again. No prefix is one-off before more than this number of runs were used again after all
  // prefixes.
  static constexpr double kPriorReused = 3;
  // Number of runs of a prefix above which its counts are halved, because workloads change.
  static constexpr float kRunsMax = 256;
  // Share of the counts that the other prefixes of a set keep when a new prefix replaces a known
  // one. Without this decay, prefixes that no longer occur would stay for ever.
  static constexpr float kKept = 0.9375F;
  // Mean delay with which a new run is counted, in multiples of the mean age at which runs are used
  // again. The mean age is weighted by age, so that quick returns of some users do not hide late
  // returns of others.
  static constexpr double kLag = 3;
  static constexpr double kAgeStep = 0.01;  // decay of earlier ages per reused run
  static constexpr size_t kSets = 64, kWays = 4;

  struct Entry {
    uint32_t prefix = 0;
    float coming = 0;  // new runs that are not counted yet
    float runs = 0, reused = 0;
    double counted_at = 0;
  };

  static size_t SetOf(uint32_t prefix) { return prefix * 0x9E3779B1U / (~0U / kSets + 1); }
  // Returns the contribution of `entry` to sum_rates_.
  static double RatesOf(const Entry& entry);
  const Entry* Find(uint32_t prefix) const;
  Entry* Find(uint32_t prefix) { return const_cast<Entry*>(std::as_const(*this).Find(prefix)); }
  Entry& FindOrReplace(uint32_t prefix);
  void Set(Entry& entry, float runs, float reused);

  std::array<std::array<Entry, kWays>, kSets> sets_{};
  // Number of runs that were used again after all prefixes, and the sum of the reuse rates of their
  // prefixes.
  double sum_reused_ = 0, sum_rates_ = 0;
  double sum_ages_ = 0, sum_squared_ages_ = 0;  // sums over recently reused runs
};

}  // namespace incipit
