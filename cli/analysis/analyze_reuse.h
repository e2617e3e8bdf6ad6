// Computes the hits of an LRU cache for every cache size. Also computes the working set: the number
// of distinct blocks used within a time window.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// The number of hits of an LRU cache for every cache size. A hit is a prompt block that is in the
// cache when the prompt arrives. The cache evicts the blocks of one prompt in reverse order: the
// last block first.
//
// One pass over the log computes the hits for all cache sizes (a stack algorithm: Mattson et al.,
// "Evaluation techniques for storage hierarchies", 1970).
class ReuseCurve {
 public:
  struct Hits {
    int64_t blocks = 0, tokens = 0;
  };

  // `at[d]`: number of hits that a cache of d blocks has, but a cache of d - 1 blocks does not
  // have. `all`: number of blocks and tokens in all prompts. `num_distinct`: number of distinct
  // blocks in all prompts. REQUIRES: `at[0].blocks` is 0.
  ReuseCurve(std::vector<Hits> at, Hits all, int64_t num_distinct);

  const Hits& all() const { return all_; }
  int64_t num_distinct() const { return num_distinct_; }
  // Returns the hits of an LRU cache of `num_blocks` blocks. REQUIRES: `num_blocks` >= 0.
  const Hits& HitsWith(int64_t num_blocks) const;
  // Returns the hits of a cache without a size limit.
  const Hits& attainable() const { return up_to_.back(); }
  // Returns the smallest cache size, in blocks, with at least `percent` % of the hits of a cache
  // without a size limit. REQUIRES: `percent` is from 1 to 100.
  int64_t BlocksFor(int32_t percent) const;

  double BlockHitRatio(const Hits& hits) const;
  double TokenHitRatio(const Hits& hits) const;

 private:
  std::vector<Hits> up_to_;  // up_to_[c]: hits of a cache of c blocks
  Hits all_;
  int64_t num_distinct_;
};

struct WorkingSet {
  struct Sample {
    // Time of the sample, in seconds (or number of requests) since the start of the log. The time
    // windows of the sample end at this time.
    double at = 0;
    int64_t num_requests = 0;  // number of requests from the start of the log to `at`
    int64_t num_distinct = 0;  // number of distinct blocks from the start of the log to `at`
    // blocks[w]: number of distinct blocks used within the time window of length windows[w] that
    // ends at `at`.
    std::vector<int64_t> blocks;
  };
  struct Peak {
    int64_t blocks = 0;
    double at = 0;
  };

  bool is_timed = false;
  // Lengths of the time windows, in ascending order: in seconds if `is_timed` is true, otherwise in
  // numbers of requests.
  std::vector<double> windows;
  // Samples of the working set, at equal intervals of seconds (or of requests, if `is_timed` is
  // false). The last sample is at the end of the log.
  std::vector<Sample> samples;
  // peaks[w]: the largest number of distinct blocks used within one time window of the length
  // windows[w].
  std::vector<Peak> peaks;
};

// Options for counting the distinct blocks that are used within time windows, such as 5 minutes.
struct WorkingSetOptions {
  bool is_timed = false;
  // Lengths of the time windows, all above 0, in ascending order: in seconds if `is_timed` is true,
  // otherwise in numbers of requests.
  std::vector<double> windows;
  int32_t num_samples = 240;
};

struct Reuse {
  ReuseCurve curve;
  WorkingSet working_set;
};

// Computes the hits for every cache size, and the working set (distinct blocks used within a time
// window). Takes O(log n) time per prompt block in a log of n prompt blocks.
Reuse MeasureReuse(const BlockView& view, const WorkingSetOptions& options);

// Returns round window lengths (such as 5 minutes) close to 1/60, 1/15 and 1/4 of the duration of
// the log.
WorkingSetOptions DefaultWindows(const BlockLog& log);

}  // namespace incipit
