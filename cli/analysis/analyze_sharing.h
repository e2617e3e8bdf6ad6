// Who shares what: how much of each prompt an earlier one began with, and which prefixes it is.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// A stretch of the forest that the same requests run through: what follows another one belongs to
// fewer requests than it. Counting each stretch apart, the savings of all add up to the attainable
// hits.
struct SharedPrefix {
  BlockNode node = kNoBlockNode;  // its last block
  int64_t num_requests = 0;
  int64_t num_blocks = 0;      // of the whole prefix, from the first block of a prompt
  int64_t num_own_blocks = 0;  // of this stretch, the last ones of the prefix
  int64_t num_saved = 0;       // blocks: all requests but one need not compute the stretch
  int64_t first_line = 0;      // of the first request with it
};

struct Sharing {
  // Requests by the number of leading blocks that an earlier request had.
  struct Bin {
    int64_t blocks_from = 0, blocks_to = 0;  // both belong to it
    int64_t num_requests = 0;
  };
  struct Lengths {
    int64_t p50 = 0, p90 = 0, p99 = 0, max = 0;  // by nearest rank
    double mean = 0;
  };

  int64_t num_requests = 0, num_sharing = 0;  // with one such block or more
  int64_t input_tokens = 0;
  Lengths prompt_tokens, shared_tokens;  // of all requests
  std::vector<Bin> bins;                 // 0, 1, 2-3, 4-7 ... up to the longest
  int64_t num_distinct = 0;              // blocks
  int64_t num_used_once = 0;             // of them
  int64_t num_prefixes = 0;              // stretches with two requests or more
  std::vector<SharedPrefix> top;         // of them, the largest num_saved first
};

// The first `num_top` of the shared prefixes.
Sharing MeasureSharing(const BlockView& view, size_t num_top);

// The first `num_blocks_max` blocks of the stretch, in order.
std::vector<BlockNode> FirstBlocks(const BlockView& view, const SharedPrefix& prefix,
                                   int64_t num_blocks_max);

}  // namespace incipit
