// Replays a log of prompts through the block manager of the server (KvCacheManager).
#pragma once

#include <cstdint>

#include "cli/analysis/analyze_blocks.h"
#include "cli/analysis/trace.h"
#include "kvcache/policies/eviction_policy.h"

namespace incipit {

struct ReplayOptions {
  TraceForm form = TraceForm::kHashIds;  // form of the prompts in the log: token ids or hash ids
  EvictionPolicyKind policy = EvictionPolicyKind::kLru;
  int64_t capacity = 1;  // cache size in blocks, at least 1
  // If true, the policy evicts before a prompt enters the cache, as a server does, so no block of
  // that prompt is evicted. If false, the pool has room for one prompt in addition to the cache.
  // After each prompt, the policy then evicts until `capacity` blocks are left.
  bool make_room_first = false;
};

struct ReplayResult {
  EvictionPolicyKind policy = EvictionPolicyKind::kLru;
  int64_t hit_blocks = 0;
  int64_t hit_tokens = 0;
  int64_t evictions = 0;  // number of evicted blocks
  int64_t regret = 0;     // number of blocks that were computed again soon after their eviction
};

// Replays the requests of `log` with one eviction policy, and returns the hits and evictions.
// Requests run one at a time, in the order and at the times of the log. All blocks of a prompt can
// be hits, including the last block. Output tokens are not cached. If a prompt is longer than the
// cache, its first blocks enter the cache.
//
// REQUIRES: if the log holds token ids, its block size is valid for ValidateKvCacheOptions(). If
// the log holds hash ids, the manager treats each hash id as a block of one token.
ReplayResult ReplayPolicy(const BlockLog& log, const ReplayOptions& options);

}  // namespace incipit
