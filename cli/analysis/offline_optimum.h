// Computes the maximum number of hits that any eviction policy can have for a log of prompts.
#pragma once

#include <cstdint>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// Returns the number of block hits of an optimal cache of `capacity` blocks that knows the future
// of the log. The cache keeps the blocks with the nearest next use (Belady: "A study of replacement
// algorithms for a virtual-storage computer", 1966). Among blocks whose next use is in the same
// request, the cache keeps the blocks nearer to the start of the prompt. Blocks of the current
// prompt may be evicted, and need not enter the cache.
//
// A request that uses a block also uses all previous blocks of the prompt. The kept blocks are
// therefore always whole prefixes, and no cache has more hits. The time is O(1) per use of a block.
// REQUIRES: `capacity` >= 0.
int64_t OfflineOptimumHits(const BlockLog& log, int64_t capacity);

}  // namespace incipit
