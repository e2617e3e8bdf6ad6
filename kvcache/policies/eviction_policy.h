// The interface of the eviction policies. A policy chooses which cached block without users is
// evicted next.
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

// The data that a policy stores for one sequence between calls. The members whose names begin with
// `ghost` describe a series of evicted blocks that the sequence computes again.
struct SequenceUse {
  // Number of blocks, in the remembered series of evicted blocks, that the sequence has not
  // computed again yet.
  int32_t ghosts_left = 0;
  // Number of requests that used each block of the remembered series of evicted blocks before the
  // eviction.
  uint8_t ghost_uses = 0;
  // Conversation turn in which the blocks of the remembered series of evicted blocks were first
  // computed.
  uint8_t ghost_born = 0;
  // Data of the remembered series of evicted blocks: reuse class (ReuseClassOf), age class (range
  // of ages), and code of the number of blocks (RunCodeOf).
  uint8_t ghost_class = 0, ghost_age = 0, ghost_run = 0;
  // Number that identifies the prefix that the sequence has in common with many requests. 0: none.
  uint32_t prefix = 0;
  // Latest conversation turn in which a reused block of the sequence was first computed.
  uint8_t turn_seen = 0;
  bool has_begun = false;  // true if Use was called for the sequence
  // True if the sequence has published (made findable) a new block: a block whose eviction the
  // policy does not remember.
  bool past_known = false;
  // True if the last examined block of the sequence would still be in a cache with plain LRU.
  bool lru_streak = true;
};

// Chooses the order in which cached blocks without users are evicted, except needed blocks
// (Block::is_needed). All operations cost O(1) amortised per block, and allocate no memory after
// construction. Only the engine thread calls a policy.
//
// For a sequence, the pool calls Use when the sequence begins and before a block is copied, Add for
// published (findable) blocks, and Release for released blocks. All of these calls pass the same
// SequenceUse.
//
// For single blocks without a sequence, the pool calls Add and Release with a default SequenceUse.
// Such a block replaces another block with the same key, or is no longer retained.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // Advances the clock of the eviction policy to `now`. If OnTime is never called, no time passes
  // for the policy.
  virtual void OnTime(Time /*now*/) {}

  // Records that a sequence begins with the cached blocks `found`, in the order of the tokens, and
  // removes these blocks from the eviction order. (Blocks with users and retained blocks are not in
  // the order.) Called before the sequence is counted as a user of the blocks.
  virtual void Use(std::span<const BlockId> found, SequenceUse& use) = 0;

  // Records that lookups can now find block `id` by a key that no other block has. REQUIRES: a
  // sequence uses `id`.
  virtual void Add(BlockId id, SequenceUse& use) = 0;

  // Adds the blocks `freed` of a sequence, which have lost their last user, to the eviction order,
  // the last block first. Lookups can find these blocks.
  virtual void Release(std::span<const BlockId> freed, const SequenceUse& use) = 0;

  // Chooses the victim (the block to evict) and removes the victim from the eviction order. Returns
  // kNoBlock if no block can be evicted. The pool makes the victim unfindable after the call.
  virtual BlockId Evict() = 0;

  // Removes a block from the eviction order although the block is not evicted: lookups can no
  // longer find the block, or the block is now retained.
  virtual void Remove(BlockId id) = 0;

  // Records that block `id` is no longer needed (Block::is_needed): lookups can find no child of
  // the block, or another block has the same key. REQUIRES: `id` is in the eviction order.
  virtual void OnChildless(BlockId id) = 0;

  // Removes all blocks from the eviction order. A policy may keep its statistics.
  virtual void Clear() = 0;

  // Returns whether the eviction order also contains blocks that lookups cannot find, as in plain
  // LRU. If true, the pool also calls Release and Remove for such blocks. If false, the pool
  // allocates these blocks first, before it evicts a block.
  virtual bool orders_unpublished() const { return false; }
  // Returns whether the next victim (block to evict) is a block that lookups cannot find.
  virtual bool is_next_unpublished() const { return false; }

  virtual size_t num_bytes() const = 0;  // memory for the tables of the policy, in bytes
};

// Creates a policy. `blocks` is the metadata of the pool and must outlive the policy. The policy
// changes only Block::prev and Block::next of the blocks in its eviction order. `capacity` is the
// maximum number of cached blocks, and `block_size` is the number of tokens per block. REQUIRES:
// `capacity` >= 1 and `block_size` >= 1.
std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(EvictionPolicyKind kind, std::span<Block> blocks,
                                                   int32_t capacity, int32_t block_size);

}  // namespace incipit
