// The most that any cache could hit, to see beside what real ones do.
#pragma once

#include <cstdint>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// Block hits of a cache of `capacity` blocks that knows the log's future: of all blocks at hand it
// keeps those that are used soonest (Belady: "A study of replacement algorithms for a
// virtual-storage computer", 1966), of those with the same next request the ones nearer to its
// beginning. Whoever uses a block uses all blocks before it as soon, so the blocks kept are always
// leading ones, and no cache has more hits. A prompt's own blocks may be given up, and need not
// enter. O(1) for each use of a block. REQUIRES: capacity >= 0.
int64_t OfflineOptimumHits(const BlockLog& log, int64_t capacity);

}  // namespace incipit
