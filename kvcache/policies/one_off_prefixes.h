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
  // Counts a request that computes new blocks after the common prefix `prefix` of many prompts.
  // `now` is the time of the request, and may decrease slightly between calls.
  void CountNew(uint32_t prefix, double now);
  // Counts a reuse of blocks that one request computed after `prefix`. `part` is the share of these
  // blocks that were used again. `age` is the time since their last use, in the unit of `now` in
  // CountNew.
  void CountReuse(uint32_t prefix, float part, double age);
  // Returns whether the blocks that requests compute after `prefix` are rarely used again.
  bool Contains(uint32_t prefix) const;

 private:
  static constexpr double kOneOffShare = 1.0 / 3;
  // Contains adds this number to the counted and to the expected number of reuses, so that a prefix
  // with few requests is not a one-off prefix.
  static constexpr double kPriorReused = 3;
  // If more than this number of requests are counted for a prefix, the counts of the prefix are
  // halved.
  static constexpr float kRunsMax = 256;
  // When a new prefix replaces a stored prefix, the counts of the other prefixes in the same set of
  // table entries are multiplied by this factor.
  static constexpr float kKept = 0.9375F;
  // CountNew adds a request to the counts gradually, during kLag times the mean time until blocks
  // are used again.
  static constexpr double kLag = 3;
  // With each reuse of blocks, the weights of all earlier reuses in the sums of ages are multiplied
  // by 1 - kAgeStep.
  static constexpr double kAgeStep = 0.01;
  static constexpr size_t kSets = 64, kWays = 4;

  struct Entry {
    uint32_t prefix = 0;
    // Estimated number of recent requests with this prefix that `runs` does not count yet.
    float coming = 0;
    float runs = 0, reused = 0;
    double counted_at = 0;
  };

  static size_t SetOf(uint32_t prefix) { return prefix * 0x9E3779B1U / (~0U / kSets + 1); }
  // Returns the number of requests whose blocks were used again, multiplied by their share of all
  // counted requests with the prefix of `entry`.
  static double RatesOf(const Entry& entry);
  const Entry* Find(uint32_t prefix) const;
  Entry* Find(uint32_t prefix) { return const_cast<Entry*>(std::as_const(*this).Find(prefix)); }
  Entry& FindOrReplace(uint32_t prefix);
  void Set(Entry& entry, float runs, float reused);

  std::array<std::array<Entry, kWays>, kSets> sets_{};
  // Sums over all prefixes: number of requests whose blocks were used again (sum_reused_), and
  // results of RatesOf (sum_rates_).
  double sum_reused_ = 0, sum_rates_ = 0;
  // Weighted sum of the ages at which blocks were used again, and weighted sum of the squares of
  // these ages. Earlier ages have less weight.
  double sum_ages_ = 0, sum_squared_ages_ = 0;
};

}  // namespace incipit
