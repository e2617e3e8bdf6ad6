// The interface of the eviction policies, which order the cached blocks without users.
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

// The state that a policy keeps for one sequence between calls. A new sequence starts with the
// default values. A ghost is an evicted block that the policy remembers.
struct SequenceUse {
  int32_t ghosts_left = 0;  // blocks that are left in the current run of ghosts
  uint8_t ghost_uses = 0;   // number of uses of each block in the current run of ghosts
  uint8_t ghost_born = 0;   // turn in which the current run of ghosts was new
  uint8_t ghost_class = 0, ghost_age = 0,
          ghost_run = 0;    // class, age class and run code of the current ghosts
  uint32_t prefix = 0;      // identifies the last block that many requests begin with; 0: none
  uint8_t turn_seen = 0;    // latest turn in which a known block of the sequence was new
  bool has_begun = false;   // Use was called for the sequence
  bool past_known = false;  // the sequence has published a block that is not a ghost
  bool lru_streak = true;   // plain LRU would have had a hit for each block so far
};

// The eviction order of the cached blocks that have no users. All operations cost O(1) amortised
// per block, and allocate no memory after construction. A needed block (Block::is_needed) is never
// the victim: if a needed block is next, the policy parks the block until OnChildless.
//
// The pool calls Use when a sequence begins, and once more if a block is copied for the sequence.
// The pool calls Add when blocks of the sequence are published, and Release when the sequence ends
// or releases a part of its blocks. All calls for one sequence pass the same SequenceUse.
//
// The pool also calls Add and Release for single blocks without a sequence, with a default
// SequenceUse. These calls happen if a block replaces another block with the same key, or if a
// block is no longer retained.
//
// Threading: only the engine thread calls a policy.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // Advances the clock of the policy to `now`. Without calls of OnTime, no time passes.
  virtual void OnTime(Time /*now*/) {}

  // Records that a sequence begins with the cached blocks `found`. Blocks of `found` without users
  // leave the order, even if the blocks are parked. `found` is in the order of the chain and may be
  // empty. `found` may contain retained blocks, which are not in the order. The pool calls Use
  // before it adds the new user.
  virtual void Use(std::span<const BlockId> found, SequenceUse& use) = 0;

  // Records that block `id` was published under a key that no other block has. `id` has a user.
  virtual void Add(BlockId id, SequenceUse& use) = 0;

  // Adds the published blocks `freed` of a sequence to the order, from last to first. The blocks
  // have lost their last user. `freed` is in the order of the chain.
  virtual void Release(std::span<const BlockId> freed, const SequenceUse& use) = 0;

  // Chooses the victim and removes the victim from the order. Returns kNoBlock if the order has no
  // victim. The victim is still published during the call, and the pool unpublishes the victim
  // right after the call.
  virtual BlockId Evict() = 0;

  // Removes a block from the order although the block is not a victim, because the block is no
  // longer published or is now retained.
  virtual void Remove(BlockId id) = 0;

  // Records that block `id` in the order is no longer needed, because its last child is gone or
  // another block has its key.
  virtual void OnChildless(BlockId id) = 0;

  // Removes all blocks from the order. A policy may keep its statistics.
  virtual void Clear() = 0;

  // Returns whether the order also contains unpublished blocks, as in plain LRU. If true, the pool
  // also calls Release and Remove for unpublished blocks. If false, the pool allocates unpublished
  // blocks before it asks for a victim.
  virtual bool orders_unpublished() const { return false; }
  // Returns whether the next victim is an unpublished block.
  virtual bool is_next_unpublished() const { return false; }

  virtual size_t num_bytes() const = 0;  // memory of the policy, in bytes
};

// Creates a policy. `blocks` is the metadata of the pool and must outlive the policy. For blocks in
// its order, the policy changes Block::prev and Block::next and only reads the other members. The
// policy sizes its tables for `capacity` blocks. `capacity` is the size of the pool, or less if
// fewer blocks may stay cached. `block_size` is the number of tokens per block. REQUIRES:
// `capacity` >= 1 and `block_size` >= 1.
std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(EvictionPolicyKind kind, std::span<Block> blocks,
                                                   int32_t capacity, int32_t block_size);

}  // namespace incipit
