// Finds the prefixes that several prompts share. Counts, for each prompt, the blocks at its start
// that an earlier prompt of the log also has.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// A stretch: consecutive blocks of a prompt that are shared by the same set of requests. Fewer
// requests share the blocks after the stretch.
struct SharedPrefix {
  // Last block of the stretch (consecutive blocks that the same requests share).
  BlockNode node = kNoBlockNode;
  int64_t num_requests = 0;
  // Number of blocks from the start of the prompt to block `node`, including this block.
  int64_t num_blocks = 0;
  // Number of blocks in the stretch (consecutive blocks, up to block `node`, that the same requests
  // share).
  int64_t num_own_blocks = 0;
  // Number of block hits in the stretch (consecutive blocks that the same requests share), for a
  // cache without a size limit: (num_requests - 1) * num_own_blocks.
  int64_t num_saved = 0;
  int64_t first_line = 0;  // line number, in the log, of the first request with these blocks
};

struct Sharing {
  // One bar of a histogram: the number of requests whose shared prefix has at least `blocks_from`
  // and at most `blocks_to` blocks.
  struct Bin {
    // Smallest and largest length of the shared prefix, in blocks.
    int64_t blocks_from = 0, blocks_to = 0;
    int64_t num_requests = 0;
  };
  struct Lengths {
    // Percentiles and maximum of a length, over all requests, in tokens.
    int64_t p50 = 0, p90 = 0, p99 = 0, max = 0;
    double mean = 0;
  };

  // `num_sharing` is the number of requests that share at least their first block with an earlier
  // request.
  int64_t num_requests = 0, num_sharing = 0;
  int64_t input_tokens = 0;
  // prompt_tokens: statistics of the prompt lengths of all requests. shared_tokens: statistics of
  // the lengths of the prefixes that prompts share with earlier prompts.
  Lengths prompt_tokens, shared_tokens;
  // Histogram of the lengths of shared prefixes. The bars are for 0, 1, 2 to 3, 4 to 7 blocks, and
  // so on.
  std::vector<Bin> bins;
  int64_t num_distinct = 0;   // number of distinct blocks in the log
  int64_t num_used_once = 0;  // number of distinct blocks that only one request has
  int64_t num_prefixes = 0;   // number of shared prefixes, including those not in `top`
  // The shared prefixes that save the most blocks in a cache without a size limit (num_saved), in
  // descending order.
  std::vector<SharedPrefix> top;
};

// Measures how the prompts of the log `view` share prefixes. The member `top` of the result has at
// most `num_top` elements.
Sharing MeasureSharing(const BlockView& view, size_t num_top);

// Returns the first blocks of the stretch `prefix` (consecutive blocks that the same requests
// share). Returns at most `num_blocks_max` blocks.
std::vector<BlockNode> FirstBlocks(const BlockView& view, const SharedPrefix& prefix,
                                   int64_t num_blocks_max);

}  // namespace incipit
