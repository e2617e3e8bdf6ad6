// Replays a log of prompts through the block manager of the server (KvCacheManager).
#pragma once

#include <cstdint>
#include <optional>

#include "cli/analysis/analyze_blocks.h"
#include "cli/analysis/simulated_disk.h"
#include "cli/analysis/trace.h"
#include "kvcache/policies/eviction_policy.h"

namespace incipit {

// The disk tier of a replay.
struct ReplayDisk {
  SimulatedDiskOptions disk{};
  int32_t blocks_per_chunk = 1;
  // Prompt tokens that the server computes in a second. A chunk is stored when its last token is
  // computed. 0: all chunks of a prompt are stored at the arrival of the request.
  double prefill_tokens_per_s = 0;
};

struct ReplayOptions {
  TraceForm form = TraceForm::kHashIds;  // form of the prompts in the log: token ids or hash ids
  EvictionPolicyKind policy = EvictionPolicyKind::kLru;
  int64_t capacity = 1;  // cache size in blocks, at least 1
  // True: the policy evicts blocks before a prompt enters the cache, as in a server. False: the
  // policy evicts blocks after the prompt has entered, and may evict blocks of this prompt.
  bool make_room_first = false;
  std::optional<ReplayDisk> disk{};  // absent: no disk tier
};

struct ReplayResult {
  EvictionPolicyKind policy = EvictionPolicyKind::kLru;
  int64_t hit_blocks = 0;  // found in the cache of the device
  int64_t hit_tokens = 0;
  int64_t disk_hit_blocks = 0;  // not found in the cache of the device, but loaded from the disk
  int64_t disk_hit_tokens = 0;
  SimulatedDiskCounts disk{};
  int64_t evictions = 0;  // number of evicted blocks
  // Number of evicted blocks that were computed again soon after their eviction: before about N
  // more blocks were evicted. N is a quarter of the cache size in blocks.
  int64_t regret = 0;
};

// Runs the prompts of `log` through KvCacheManager, one after the other, with one eviction policy.
// If a prompt is longer than the cache, only its first blocks enter the cache.
//
// With a disk, the lookup of a prompt continues on the disk at the chunk with the first block that
// the cache lacks. Loaded blocks enter the cache like computed blocks, but are not stored again.
//
// REQUIRES: if `log` holds token ids, ValidateKvCacheOptions() accepts the block size of `log`.
ReplayResult ReplayPolicy(const BlockLog& log, const ReplayOptions& options);

// Returns the number of distinct chunks of `blocks_per_chunk` full blocks in `log`.
int64_t CountChunks(const BlockLog& log, int32_t blocks_per_chunk);

}  // namespace incipit
