// Computes the maximum number of hits that any eviction policy can have for a log of prompts.
#pragma once

#include <cstdint>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// Returns the maximum number of block hits that any eviction policy can have for `log` with a cache
// of `capacity` blocks. Simulates the optimum policy: a full cache evicts the block whose next use
// is latest in the log (Belady: "A study of replacement algorithms for a virtual-storage computer",
// 1966).
//
// A policy may also evict a block of the current prompt, or not store a block at all. Takes O(1)
// time per prompt block. REQUIRES: `capacity` >= 0.
int64_t OfflineOptimumHits(const BlockLog& log, int64_t capacity);

}  // namespace incipit
