// Which prefixes are followed by prompts that do not come back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace incipit {

// Behind one server, one system prompt may begin conversations that go on, and another one
// instructions that are sent with a thousand documents, each once. By use and age alone the blocks
// that follow the two cannot be told apart; by the prefix that they follow they can.
//
// For each prefix it is counted how many runs of new blocks have followed it, and how many of them
// were used again. A prefix is one-off while the latter are less than kOneOffShare of what they
// would be at the rate that such runs are used at behind the prefixes that are not: the mean over
// all runs that were used again. A run counts by and by, as time passes, so that a new prefix is
// not one-off before anybody can have come back.
//
// Some 250 prefixes are known, of which those that come seldom go when others come. Prompts that
// begin with none (0) are together like those behind one.
class OneOffPrefixes {
 public:
  // A run of new blocks has followed `prefix`. `now` does not go back much.
  void CountNew(uint32_t prefix, double now);
  // Such a run, or this part of one, has been used again, at this age by the same clock.
  void CountReuse(uint32_t prefix, float part, double age);
  bool Contains(uint32_t prefix) const;

 private:
  static constexpr double kOneOffShare = 1.0 / 3;
  // A prefix is believed to be like others as if so many runs had been used again, which they must
  // have been in all.
  static constexpr double kPriorReused = 3;
  // Counts are halved when there are more than so many runs: workloads change.
  static constexpr float kRunsMax = 256;
  // What remains of the counts of its neighbours when a prefix is forgotten for a new one, lest
  // those that do not come any more stay for ever.
  static constexpr float kKept = 0.9375F;
  // How late a run counts, in the mean: so many times the age that runs are used again at. In the
  // mean of those a long one counts for more than a short one, so that who comes back at once does
  // not hide who takes his time.
  static constexpr double kLag = 3;
  static constexpr double kAgeStep = 0.01;  // how fast earlier ages are forgotten, a run
  static constexpr size_t kSets = 64, kWays = 4;

  struct Entry {
    uint32_t prefix = 0;
    float coming = 0;  // runs that do not count yet
    float runs = 0, reused = 0;
    double counted_at = 0;
  };

  static size_t SetOf(uint32_t prefix) { return prefix * 0x9E3779B1U / (~0U / kSets + 1); }
  // What an entry adds to sum_rates_.
  static double RatesOf(const Entry& entry);
  const Entry* Find(uint32_t prefix) const;
  Entry* Find(uint32_t prefix) { return const_cast<Entry*>(std::as_const(*this).Find(prefix)); }
  Entry& FindOrReplace(uint32_t prefix);
  void Set(Entry& entry, float runs, float reused);

  std::array<std::array<Entry, kWays>, kSets> sets_{};
  // Of all runs that were used again, and of the rates of the prefix that each was behind.
  double sum_reused_ = 0, sum_rates_ = 0;
  double sum_ages_ = 0, sum_squared_ages_ = 0;  // of the last ones
};

}  // namespace incipit
