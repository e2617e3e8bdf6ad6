// Finds one-off prefixes. After such a prefix of a prompt, blocks are rarely used again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace incipit {

// One system prompt may begin conversations that continue. Another system prompt may begin requests
// that are sent only once. The age of a block and its number of uses do not show which of the two
// system prompts precedes the block, so OneOffPrefixes counts for each prefix.
//
// For each prefix, OneOffPrefixes counts the requests with new blocks after the prefix, and the
// requests whose new blocks were used again. The requests with other prefixes predict the number of
// requests whose new blocks are used again. A prefix is one-off if the counted number is less than
// kOneOffShare of the predicted number. A request is counted with a delay, so that its user has
// time to continue the conversation.
//
// At most 256 prefixes are stored. A new prefix replaces the prefix with the fewest counted
// requests in its set of table entries. Requests without a common prefix are counted as if they had
// the prefix 0.
class OneOffPrefixes {
 public:
  // Counts a request that has new blocks after `prefix`, at time `now`. `now` may decrease slightly
  // between calls.
  void CountNew(uint32_t prefix, double now);
  // Counts that the new blocks of a request after `prefix` were used again at the age `age`. `part`
  // is the share of these blocks that were used again. `age` uses the same clock as CountNew.
  void CountReuse(uint32_t prefix, float part, double age);
  // Returns whether `prefix` is one-off: new blocks after `prefix` are rarely used again.
  bool Contains(uint32_t prefix) const;

 private:
  static constexpr double kOneOffShare = 1.0 / 3;
  // A prefix is assumed to be like the other prefixes until its counts show a difference. The
  // assumption has the same weight as kPriorReused requests whose new blocks were used again.
  static constexpr double kPriorReused = 3;
  // If more than kRunsMax requests are counted for a prefix, both counts of the prefix (requests,
  // and requests whose blocks were used again) are halved. New requests therefore weigh more than
  // old requests.
  static constexpr float kRunsMax = 256;
  // If a new prefix replaces an old prefix, the counts of the other prefixes in the same set of
  // table entries are multiplied by kKept. Prefixes that no longer occur are therefore replaced
  // after some time.
  static constexpr float kKept = 0.9375F;
  // Mean delay after which the new blocks of a request are counted. The unit is the mean age at
  // which new blocks are used again; late uses have more weight in this mean.
  static constexpr double kLag = 3;
  // With each reuse of blocks, the weights of all earlier ages in the mean age at reuse are
  // multiplied by 1 - kAgeStep.
  static constexpr double kAgeStep = 0.01;
  static constexpr size_t kSets = 64, kWays = 4;

  struct Entry {
    uint32_t prefix = 0;
    float coming = 0;  // number of requests with this prefix that are not added to `runs` yet
    float runs = 0, reused = 0;
    double counted_at = 0;
  };

  static size_t SetOf(uint32_t prefix) { return prefix * 0x9E3779B1U / (~0U / kSets + 1); }
  // Returns n * p, where n is the number of requests with the prefix of `entry` whose blocks were
  // used again, and p is the share of these requests among all requests with this prefix.
  static double RatesOf(const Entry& entry);
  const Entry* Find(uint32_t prefix) const;
  Entry* Find(uint32_t prefix) { return const_cast<Entry*>(std::as_const(*this).Find(prefix)); }
  Entry& FindOrReplace(uint32_t prefix);
  void Set(Entry& entry, float runs, float reused);

  std::array<std::array<Entry, kWays>, kSets> sets_{};
  // Sums over all prefixes: sum_reused_ is the number of requests whose new blocks were used again,
  // and sum_rates_ is the sum of RatesOf(entry).
  double sum_reused_ = 0, sum_rates_ = 0;
  // Sum of the ages, and sum of the squared ages, at which new blocks were used again. Earlier ages
  // have less weight.
  double sum_ages_ = 0, sum_squared_ages_ = 0;
};

}  // namespace incipit
