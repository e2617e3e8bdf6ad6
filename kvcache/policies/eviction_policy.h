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
// default values. A ghost is an evicted block that the policy remembers. A run of ghosts is a
// series of consecutive blocks that were evicted together.
struct SequenceUse {
  int32_t ghosts_left = 0;  // number of remembered evicted blocks left in the current series
  uint8_t ghost_uses = 0;   // number of uses of each block in the current series of evicted blocks
  // Conversation turn in which the blocks of the current series of evicted blocks were new.
  uint8_t ghost_born = 0;
  // Class, range of ages and length code (RunCodeOf) of the current series of evicted blocks.
  uint8_t ghost_class = 0, ghost_age = 0, ghost_run = 0;
  uint32_t prefix = 0;    // number of the last block that many requests begin with; 0: none
  uint8_t turn_seen = 0;  // latest conversation turn in which a known block of the sequence was new
  bool has_begun = false;  // true if Use was called for the sequence
  // true if the sequence has published a block that the policy does not remember.
  bool past_known = false;
  bool lru_streak = true;  // true if plain LRU would have found each block until now
};

// The eviction order of the cached blocks that have no users. All operations cost O(1) amortised
// per block, and allocate no memory after construction. A needed block (Block::is_needed) is never
// the victim. If a needed block is next, the policy parks the block outside its lists until
// OnChildless is called.
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

  // Advances the clock of the eviction policy to `now`. If OnTime is never called, no time passes
  // for the policy.
  virtual void OnTime(Time /*now*/) {}

  // Records that a sequence begins with the cached blocks `found`. Removes the blocks of `found`
  // that have no users from the order, including parked blocks. `found` is in the order of the
  // tokens and may be empty. `found` may contain retained blocks, which are not in the order. The
  // pool calls Use before it adds the new user.
  virtual void Use(std::span<const BlockId> found, SequenceUse& use) = 0;

  // Records that block `id` was published under a key that no other block has. REQUIRES: `id` has a
  // user.
  virtual void Add(BlockId id, SequenceUse& use) = 0;

  // Adds the published blocks `freed` of a sequence to the eviction order, from the last block to
  // the first. The blocks have lost their last user. `freed` is in the order of the tokens.
  virtual void Release(std::span<const BlockId> freed, const SequenceUse& use) = 0;

  // Chooses the victim (the block to evict) and removes the victim from the order. Returns kNoBlock
  // if the order has no victim. The victim is still published during the call, and the pool
  // unpublishes the victim right after the call.
  virtual BlockId Evict() = 0;

  // Removes a block from the eviction order although the block is not evicted: the block is no
  // longer published or is now retained.
  virtual void Remove(BlockId id) = 0;

  // Records that block `id` in the order is no longer needed (Block::is_needed), because its last
  // child is unpublished or another block has its key.
  virtual void OnChildless(BlockId id) = 0;

  // Removes all blocks from the eviction order. A policy may keep its statistics.
  virtual void Clear() = 0;

  // Returns whether the eviction order also contains unpublished blocks, as in plain LRU. If true,
  // the pool also calls Release and Remove for unpublished blocks. If false, the pool allocates
  // unpublished blocks before it calls Evict.
  virtual bool orders_unpublished() const { return false; }
  // Returns whether the block that is evicted next is an unpublished block.
  virtual bool is_next_unpublished() const { return false; }

  virtual size_t num_bytes() const = 0;  // memory of the policy's tables, in bytes
};

// Creates a policy. `blocks` is the metadata of the pool and must outlive the policy. For blocks in
// its order, the policy changes Block::prev and Block::next and only reads the other members. The
// policy sizes its tables for `capacity` blocks. `capacity` is the size of the pool, or less if
// fewer blocks may stay cached. `block_size` is the number of tokens per block. REQUIRES:
// `capacity` >= 1 and `block_size` >= 1.
std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(EvictionPolicyKind kind, std::span<Block> blocks,
                                                   int32_t capacity, int32_t block_size);

}  // namespace incipit
