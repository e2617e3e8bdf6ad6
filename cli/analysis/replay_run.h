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
  // True: the policy evicts blocks before a prompt enters the cache, as in a server. False: the
  // policy evicts blocks after the prompt has entered, and may evict blocks of this prompt.
  bool make_room_first = false;
};

struct ReplayResult {
  EvictionPolicyKind policy = EvictionPolicyKind::kLru;
  int64_t hit_blocks = 0;
  int64_t hit_tokens = 0;
  int64_t evictions = 0;  // number of evicted blocks
  // Number of evicted blocks that were computed again soon after their eviction: before about N
  // more blocks were evicted. N is a quarter of the cache size in blocks.
  int64_t regret = 0;
};

// Runs the prompts of `log` through KvCacheManager, one after the other, with one eviction policy.
// If a prompt is longer than the cache, only its first blocks enter the cache.
//
// REQUIRES: if `log` holds token ids, ValidateKvCacheOptions() accepts the block size of `log`.
ReplayResult ReplayPolicy(const BlockLog& log, const ReplayOptions& options);

}  // namespace incipit
