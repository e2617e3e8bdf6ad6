// Computes the maximum number of hits that any eviction policy can have for a log of prompts.
#pragma once

#include <cstdint>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// Returns the largest number of block hits that any cache of `capacity` blocks can have for `log`.
// A full cache evicts the block whose next use is latest in the log (Belady: "A study of
// replacement algorithms for a virtual-storage computer", 1966).
//
// The cache may also evict a block of the current prompt, or not store a block at all. The time is
// O(1) per block of a prompt. REQUIRES: `capacity` >= 0.
int64_t OfflineOptimumHits(const BlockLog& log, int64_t capacity);

}  // namespace incipit
