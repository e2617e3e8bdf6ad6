// Replays a log of prompts through the server's own block manager.
#pragma once

#include <cstdint>

#include "cli/analysis/analyze_blocks.h"
#include "cli/analysis/trace.h"
#include "kvcache/policies/eviction_policy.h"

namespace incipit {

struct ReplayOptions {
  TraceForm form = TraceForm::kHashIds;  // what the log's blocks are made of
  EvictionPolicyKind policy = EvictionPolicyKind::kLru;
  int64_t capacity = 1;  // blocks, 1 or more
  // Room is made before a prompt enters, as a server must, so that its own blocks are never given
  // up for it. Otherwise there is room for one prompt beside the cache, and once it has entered
  // blocks are given up until `capacity` are left.
  bool make_room_first = false;
};

struct ReplayResult {
  EvictionPolicyKind policy = EvictionPolicyKind::kLru;
  int64_t hit_blocks = 0;
  int64_t hit_tokens = 0;
  int64_t evictions = 0;  // of blocks
  int64_t regret = 0;     // blocks that were computed again not long after they were evicted
};

// What one policy makes of the log, one request at a time in its order and at its times. Every
// block of a prompt can be found, its last one too; answers are not cached. Of a prompt that is
// longer than the cache the first blocks enter. Block sizes of token ids are those of the manager
// (ValidateKvCacheOptions); a hash id is one token to it.
ReplayResult ReplayPolicy(const BlockLog& log, const ReplayOptions& options);

}  // namespace incipit
