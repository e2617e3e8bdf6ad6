// Finds one-off prefixes: prefixes of prompts after which blocks are rarely used again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace incipit {

// Finds prefixes (such as system prompts) after which blocks are rarely used again. Counts, for
// each prefix, the requests with new blocks after the prefix, and the requests whose new blocks
// were used again.
//
// A prefix is one-off if the new blocks of too few requests were used again: less than kOneOffShare
// of the number that the requests with other prefixes predict. A request is counted with a delay,
// so that its user has time to continue the conversation.
//
// At most 256 prefixes are stored. A new prefix replaces the prefix with the fewest counted
// requests in its set of table entries. Requests without a common prefix are counted for prefix 0.
class OneOffPrefixes {
 public:
  // Counts a request that has new blocks after `prefix`, at time `now`. `now` may decrease slightly
  // between calls.
  void CountNew(uint32_t prefix, double now);
  // Counts that a share `part` of the new blocks of one request after `prefix` was used again.
  // `age` is the age of these blocks at the reuse, on the clock of CountNew.
  void CountReuse(uint32_t prefix, float part, double age);
  // Returns whether `prefix` is one-off: new blocks after `prefix` are rarely used again.
  bool Contains(uint32_t prefix) const;

 private:
  static constexpr double kOneOffShare = 1.0 / 3;
  // Weight of the assumption that blocks after a prefix are used again as often as blocks after
  // other prefixes. The unit is one request whose new blocks were used again.
  static constexpr double kPriorReused = 3;
  // If more than kRunsMax requests are counted for a prefix, the counts of the prefix are halved,
  // so that new requests weigh more than old requests.
  static constexpr float kRunsMax = 256;
  // If a new prefix replaces an old prefix, the counts of the other prefixes in the same set of
  // table entries are multiplied by kKept. Prefixes that no longer occur are therefore replaced
  // later.
  static constexpr float kKept = 0.9375F;
  // The new blocks of a request are counted after a delay of kLag times the mean age at which new
  // blocks are used again. Late uses have more weight in this mean.
  static constexpr double kLag = 3;
  // With each reuse of blocks, the weight of all earlier reuses in sum_ages_ is multiplied by 1 -
  // kAgeStep.
  static constexpr double kAgeStep = 0.01;
  static constexpr size_t kSets = 64, kWays = 4;

  struct Entry {
    uint32_t prefix = 0;
    float coming = 0;  // number of requests with this prefix that are not added to `runs` yet
    float runs = 0, reused = 0;
    double counted_at = 0;
  };

  static size_t SetOf(uint32_t prefix) { return prefix * 0x9E3779B1U / (~0U / kSets + 1); }
  // Returns n * n / m for the prefix of `entry`, which has m counted requests, of which n had new
  // blocks that were used again.
  static double RatesOf(const Entry& entry);
  const Entry* Find(uint32_t prefix) const;
  Entry* Find(uint32_t prefix) { return const_cast<Entry*>(std::as_const(*this).Find(prefix)); }
  Entry& FindOrReplace(uint32_t prefix);
  void Set(Entry& entry, float runs, float reused);

  std::array<std::array<Entry, kWays>, kSets> sets_{};
  // Sums over all prefixes: requests whose new blocks were used again (sum_reused_), and results of
  // RatesOf (sum_rates_).
  double sum_reused_ = 0, sum_rates_ = 0;
  // Sum of the ages, and sum of the squared ages, at which new blocks were used again. Earlier ages
  // have less weight.
  double sum_ages_ = 0, sum_squared_ages_ = 0;
};

}  // namespace incipit
