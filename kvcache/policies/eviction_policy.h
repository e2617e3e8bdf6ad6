// The interface of the eviction policies. An eviction policy chooses the cached block to evict
// next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/enum_names.h"
#include "base/types.h"
#include "kvcache/pool/block.h"

namespace incipit {

enum class EvictionPolicyKind : uint8_t { kLru, kLfuAging, kLru2, kArc, kS3Fifo, kAdaptive };

inline constexpr EnumName<EvictionPolicyKind> kEvictionPolicyNames[] = {
    {EvictionPolicyKind::kLru, "lru"},        {EvictionPolicyKind::kLfuAging, "lfu-aging"},
    {EvictionPolicyKind::kLru2, "lru-2"},     {EvictionPolicyKind::kArc, "arc"},
    {EvictionPolicyKind::kS3Fifo, "s3-fifo"}, {EvictionPolicyKind::kAdaptive, "adaptive"}};
constexpr std::string_view NameOf(EvictionPolicyKind kind) {
  return NameIn(kEvictionPolicyNames, kind);
}

// Where the contents of a block come from when lookups begin to find the block.
enum class BlockOrigin : uint8_t {
  kComputed,
  kLoaded,  // loaded from a tier, so the block was already used once before
};

// Data that an eviction policy stores for one sequence.
struct SequenceUse {
  // Number of evicted blocks that the sequence still has to compute again, in the present group of
  // evicted blocks.
  int32_t ghosts_left = 0;
  // Number of requests that used the evicted blocks before the eviction. Used only if the sequence
  // computes evicted blocks again.
  uint8_t ghost_uses = 0;
  // Number of the request that first computed the evicted blocks (1: first request of its
  // conversation). Used only if the sequence computes evicted blocks again.
  uint8_t ghost_born = 0;
  // If the sequence computes evicted blocks again, these members describe the blocks:
  // - ghost_class: index of the class of blocks with similar past uses
  // - ghost_age: index of the range of ages (times since the last use)
  // - ghost_run: 5-bit code of the number of blocks that were released together (RunCodeOf)
  uint8_t ghost_class = 0, ghost_age = 0, ghost_run = 0;
  // Hash of the common prefix of the prompt: a start of many prompts, such as a system prompt. 0:
  // the prompt has no common prefix.
  uint32_t prefix = 0;
  // Highest turn of the reused blocks of the sequence. 0: no block was reused. The turn of a block
  // is the number of the request that first computed the block (1: first request of its
  // conversation).
  uint8_t turn_seen = 0;
  bool has_begun = false;  // true after the first call of EvictionPolicy::Use for the sequence
  // True after the policy has not found a block of the sequence among the evicted blocks. The
  // policy then does not search for later blocks of the sequence.
  bool past_known = false;
  // The policy examines the blocks of a sequence in order. True if a cache with plain LRU would
  // also hold all blocks that the policy has examined for this sequence.
  bool lru_streak = true;
};

// Chooses the order in which cached blocks are evicted. All functions cost O(1) amortised per
// block, and allocate no memory. Only the engine thread may call an eviction policy.
//
// The policy stores data about each sequence in a SequenceUse. The block pool passes the
// SequenceUse of a sequence to Use(), Add() and Release().
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // Sets the time of the eviction policy to `now`. If OnTime() is never called, no time passes for
  // the policy.
  virtual void OnTime(Time /*now*/) {}

  // Removes the cached blocks `found`, which a sequence begins to use, from the eviction order.
  // `found` is in the order of the tokens. Called before the sequence is counted as a user of the
  // blocks.
  virtual void Use(std::span<const BlockId> found, SequenceUse& use) = 0;

  // Records that lookups can now find block `id` by its key. A loaded block counts as reused, also
  // if the policy does not remember the block. REQUIRES: a sequence uses `id`, and no other block
  // has the same key.
  virtual void Add(BlockId id, BlockOrigin origin, SequenceUse& use) = 0;

  // Adds the blocks `freed`, which have lost their last user, to the eviction order. The last
  // element of `freed` is added first.
  virtual void Release(std::span<const BlockId> freed, const SequenceUse& use) = 0;

  // Removes the next block to evict from the eviction order, and returns its id. Returns kNoBlock
  // if no block can be evicted.
  virtual BlockId Evict() = 0;

  // Removes block `id` from the eviction order for another reason than eviction: lookups can no
  // longer find the block, or a retention hint now protects the block.
  virtual void Remove(BlockId id) = 0;

  // Records that block `id` may be evicted from now on: no cached block follows `id` in a sequence
  // any more, or a second block has the same key. REQUIRES: `id` is in the eviction order.
  virtual void OnChildless(BlockId id) = 0;

  // Removes all blocks from the eviction order. A policy may keep its statistics.
  virtual void Clear() = 0;

  // Returns whether the eviction order also contains free blocks that lookups cannot find. If true,
  // the pool calls Release() for these blocks too. If false, the pool uses these blocks before it
  // evicts a block.
  virtual bool orders_unpublished() const { return false; }
  // Returns whether the next block to evict is a block that lookups cannot find.
  virtual bool is_next_unpublished() const { return false; }

  virtual size_t num_bytes() const = 0;  // size of the tables of the policy, in bytes
};

// Creates an eviction policy for at most `capacity` cached blocks of `block_size` tokens each.
// `blocks` is the metadata of all blocks; the policy changes only `prev` and `next`. REQUIRES:
// `blocks` outlives the policy. `capacity` and `block_size` are at least 1.
std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(EvictionPolicyKind kind, std::span<Block> blocks,
                                                   int32_t capacity, int32_t block_size);

}  // namespace incipit
