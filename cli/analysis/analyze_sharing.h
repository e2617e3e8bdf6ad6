// Measures sharing: how many leading blocks of each prompt an earlier prompt also had, and which
// prefixes requests share.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// A stretch: a run of consecutive blocks that the same requests share. The next stretch of a prompt
// belongs to fewer requests. Each stretch counts only its own blocks, so the savings of all
// stretches add up to the attainable hits.
struct SharedPrefix {
  BlockNode node = kNoBlockNode;  // last block of the stretch
  int64_t num_requests = 0;
  int64_t num_blocks = 0;      // blocks from the start of a prompt to the end of the stretch
  int64_t num_own_blocks = 0;  // blocks of the stretch alone
  int64_t num_saved = 0;       // saved blocks: only one request computes the stretch
  int64_t first_line = 0;      // line in the log of the first request with the stretch
};

struct Sharing {
  // One bar of a histogram: the number of requests with blocks_from to blocks_to shared blocks. A
  // shared block is a leading block of the prompt that an earlier request also had.
  struct Bin {
    int64_t blocks_from = 0, blocks_to = 0;  // both included
    int64_t num_requests = 0;
  };
  struct Lengths {
    int64_t p50 = 0, p90 = 0, p99 = 0, max = 0;  // percentiles by nearest rank, in tokens
    double mean = 0;
  };

  int64_t num_requests = 0, num_sharing = 0;  // num_sharing: requests that share at least one block
  int64_t input_tokens = 0;
  Lengths prompt_tokens, shared_tokens;  // over all requests
  std::vector<Bin> bins;      // for 0, 1, 2-3, 4-7 ... shared blocks, up to the maximum in the log
  int64_t num_distinct = 0;   // distinct blocks in the log
  int64_t num_used_once = 0;  // distinct blocks that only one request used
  int64_t num_prefixes = 0;   // stretches that at least two requests share
  std::vector<SharedPrefix> top;  // shared stretches, by descending num_saved
};

// Measures the sharing of the log. `top` of the result has at most `num_top` shared prefixes.
Sharing MeasureSharing(const BlockView& view, size_t num_top);

// Returns the first `num_blocks_max` blocks of the stretch of `prefix`, in order.
std::vector<BlockNode> FirstBlocks(const BlockView& view, const SharedPrefix& prefix,
                                   int64_t num_blocks_max);

}  // namespace incipit
