// Computes the maximum number of hits that any eviction policy can have for a log of prompts.
#pragma once

#include <cstdint>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// Returns the maximum number of block hits that a cache of `capacity` blocks can have for `log`.
// The function knows the future: when the cache is full, the block whose next use is latest in the
// log is evicted (Belady: "A study of replacement algorithms for a virtual-storage computer",
// 1966). Blocks of the current prompt may be evicted, and need not enter the cache.
//
// The time is O(1) per block of a prompt. REQUIRES: `capacity` >= 0.
int64_t OfflineOptimumHits(const BlockLog& log, int64_t capacity);

}  // namespace incipit
