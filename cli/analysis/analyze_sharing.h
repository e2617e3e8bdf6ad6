// Measures how prompts of a log share prefixes: how many leading blocks of each prompt an earlier
// prompt also had, and which prefixes requests share.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// A stretch: consecutive blocks of prompts that are all shared by the same requests. The next
// stretch of a prompt is shared by fewer requests. Each stretch counts only its own blocks, so the
// savings of all stretches add up to the hits of a cache without a size limit.
struct SharedPrefix {
  // Last block of the stretch (consecutive blocks that the same requests share).
  BlockNode node = kNoBlockNode;
  int64_t num_requests = 0;
  // Number of blocks from the start of the prompt to the end of the stretch.
  int64_t num_blocks = 0;
  // Number of blocks in the stretch, without the blocks before the stretch.
  int64_t num_own_blocks = 0;
  int64_t num_saved = 0;   // blocks that all requests after the first find in the cache
  int64_t first_line = 0;  // line number in the log of the first request with the stretch
};

struct Sharing {
  // One bar of a histogram: the number of requests that have from `blocks_from` to `blocks_to`
  // shared blocks. A shared block is a leading block of the prompt that an earlier request also
  // had.
  struct Bin {
    int64_t blocks_from = 0, blocks_to = 0;  // range of shared blocks; both bounds are included
    int64_t num_requests = 0;
  };
  struct Lengths {
    int64_t p50 = 0, p90 = 0, p99 = 0, max = 0;  // percentiles (nearest rank) of a length in tokens
    double mean = 0;
  };

  // num_sharing: requests that share at least one block with an earlier request.
  int64_t num_requests = 0, num_sharing = 0;
  int64_t input_tokens = 0;
  // Distributions over all requests: prompt length, and shared length.
  Lengths prompt_tokens, shared_tokens;
  // Histogram for 0, 1, 2-3, 4-7 ... shared blocks, up to the maximum in the log.
  std::vector<Bin> bins;
  int64_t num_distinct = 0;       // number of distinct blocks in the log
  int64_t num_used_once = 0;      // number of distinct blocks that only one request used
  int64_t num_prefixes = 0;       // number of stretches that at least two requests share
  std::vector<SharedPrefix> top;  // stretches with the highest num_saved, in descending order
};

// Measures how the prompts of the log share prefixes. `top` of the result has at most `num_top`
// shared prefixes.
Sharing MeasureSharing(const BlockView& view, size_t num_top);

// Returns the first `num_blocks_max` blocks of the stretch `prefix` (consecutive blocks that the
// same requests share), in prompt order.
std::vector<BlockNode> FirstBlocks(const BlockView& view, const SharedPrefix& prefix,
                                   int64_t num_blocks_max);

}  // namespace incipit
