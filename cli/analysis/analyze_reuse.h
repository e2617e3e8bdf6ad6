// Computes the hits of an LRU cache for all cache sizes at once, and the working set: the number of
// distinct blocks used within a window.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// The hits of an LRU cache for every cache size. The cache evicts the least recently used block. Of
// the blocks of one prompt, the cache evicts the last block first. A hit is a leading block of a
// prompt that the cache holds when the prompt arrives. Every block of a prompt enters the cache. If
// the prompt is longer than the cache, its first blocks stay.
//
// A cache of C + 1 blocks always holds all blocks of a cache of C blocks (a stack algorithm:
// Mattson, Gecsei, Slutz, Traiger: "Evaluation techniques for storage hierarchies", 1970). One pass
// over the log therefore computes the hits for all cache sizes. A block is never older than the
// blocks that follow it in a prompt, so the blocks found are always leading blocks.
class ReuseCurve {
 public:
  struct Hits {
    int64_t blocks = 0, tokens = 0;
  };

  // `at[d]` counts the hits of a cache of d blocks that a cache of d - 1 blocks does not have.
  // `all` counts all looked-up blocks and tokens. `num_distinct` is the number of distinct blocks
  // in the log. REQUIRES: `at[0]` is empty.
  ReuseCurve(std::vector<Hits> at, Hits all, int64_t num_distinct);

  const Hits& all() const { return all_; }
  int64_t num_distinct() const { return num_distinct_; }
  // Returns the hits of an LRU cache of `num_blocks` blocks. REQUIRES: `num_blocks` >= 0.
  const Hits& HitsWith(int64_t num_blocks) const;
  // Returns the attainable hits: the hits of a cache without a size limit.
  const Hits& attainable() const { return up_to_.back(); }
  // Returns the smallest cache size, in blocks, with at least `percent` % of the hits of a cache
  // without a size limit. Returns 0 if a cache without a size limit has no hits. REQUIRES:
  // `percent` is from 1 to 100.
  int64_t BlocksFor(int32_t percent) const;

  double BlockHitRatio(const Hits& hits) const;
  double TokenHitRatio(const Hits& hits) const;

 private:
  std::vector<Hits> up_to_;  // up_to_[c]: hits of a cache of c blocks; ascending
  Hits all_;
  int64_t num_distinct_;
};

struct WorkingSet {
  struct Sample {
    double at = 0;                // end of all windows: time in seconds, or number of requests
    int64_t num_requests = 0;     // number of requests since the start of the log
    int64_t num_distinct = 0;     // number of distinct blocks since the start of the log
    std::vector<int64_t> blocks;  // blocks[w]: number of distinct blocks within window w
  };
  struct Peak {
    int64_t blocks = 0;
    double at = 0;
  };

  bool is_timed = false;        // true: window lengths are seconds; false: numbers of requests
  std::vector<double> windows;  // lengths of the windows, ascending
  // Samples at equal distances; the last sample is at the end of the log.
  std::vector<Sample> samples;
  // peaks[w]: maximum for window w over all requests, not only over `samples`.
  std::vector<Peak> peaks;
};

// The lengths of the windows of a working set: in seconds or, if the log has no timestamps, in
// requests.
struct WorkingSetOptions {
  bool is_timed = false;
  std::vector<double> windows;  // lengths of the windows, ascending, above 0
  int32_t num_samples = 240;
};

struct Reuse {
  ReuseCurve curve;
  WorkingSet working_set;
};

// Computes the hit curve and the working set (distinct blocks used within a window) in one pass
// over the log. The cost per block is O(log n), where n is the number of blocks in the log. A
// window of length w that ends at time t is the interval (t - w, t].
Reuse MeasureReuse(const BlockView& view, const WorkingSetOptions& options);

// Returns three round window lengths, close to 1/60, 1/15 and 1/4 of the duration of the log.
WorkingSetOptions DefaultWindows(const BlockLog& log);

}  // namespace incipit
