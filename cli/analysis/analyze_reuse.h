// How many blocks a cache must hold for which share of hits, for all sizes at once, and how many
// blocks are in use at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// Hits of a cache that evicts the least recently used block, of a sequence the last one first, and
// counts as hits a prompt's leading blocks that it holds when the prompt arrives. Every block of a
// prompt enters it; of a prompt longer than the cache the first ones stay. That makes it a stack
// algorithm (Mattson, Gecsei, Slutz, Traiger: "Evaluation techniques for storage hierarchies",
// 1970): what C blocks hold, C + 1 blocks hold too, so one pass over the distances answers for
// every C. A block is never older than what follows it, so those found are always leading ones.
class ReuseCurve {
 public:
  struct Hits {
    int64_t blocks = 0, tokens = 0;
  };

  // `at` [d]: hits at distance d, that is, of a cache of d blocks but not of d - 1; at[0] is empty.
  // `all`: everything asked for. `num_distinct`: what an unlimited cache ends up with.
  ReuseCurve(std::vector<Hits> at, Hits all, int64_t num_distinct);

  const Hits& all() const { return all_; }
  int64_t num_distinct() const { return num_distinct_; }
  // With this many blocks, 0 or more.
  const Hits& HitsWith(int64_t num_blocks) const;
  // Of an unlimited cache: what is attainable.
  const Hits& attainable() const { return up_to_.back(); }
  // The fewest blocks with at least `percent`, 1 to 100, of the attainable block hits; 0 if none
  // are attainable.
  int64_t BlocksFor(int32_t percent) const;

  double BlockHitRatio(const Hits& hits) const;
  double TokenHitRatio(const Hits& hits) const;

 private:
  std::vector<Hits> up_to_;  // [blocks], ascending
  Hits all_;
  int64_t num_distinct_;
};

struct WorkingSet {
  struct Sample {
    double at = 0;                // as the windows
    int64_t num_requests = 0;     // so far
    int64_t num_distinct = 0;     // so far
    std::vector<int64_t> blocks;  // [window]
  };
  struct Peak {
    int64_t blocks = 0;
    double at = 0;
  };

  bool is_timed = false;        // in seconds since the first request; else in requests
  std::vector<double> windows;  // ascending
  std::vector<Sample> samples;  // at equal distances, the last one at the end
  std::vector<Peak> peaks;      // [window]; over all moments, not only the samples
};

// Which windows to look at: lengths in seconds or, where the log has no times, in requests.
struct WorkingSetOptions {
  bool is_timed = false;
  std::vector<double> windows;  // ascending, above 0
  int32_t num_samples = 240;
};

struct Reuse {
  ReuseCurve curve;
  WorkingSet working_set;
};

// One pass, O(log n) a block. A window of length w ends at each moment t: (t - w, t].
Reuse MeasureReuse(const BlockView& view, const WorkingSetOptions& options);

// Round lengths near a sixtieth, a fifteenth and a quarter of the log.
WorkingSetOptions DefaultWindows(const BlockLog& log);

}  // namespace incipit
