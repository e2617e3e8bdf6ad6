// In which order cached blocks without a user are given up.
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

// What a policy remembers of one sequence from call to call. Starts out as it is here.
struct SequenceUse {
  int32_t ghosts_left = 0;  // further blocks of a run of ghosts that the sequence has met
  uint8_t ghost_uses = 0;   // of that run: how often its blocks had been used
  uint8_t ghost_born = 0;   // the turn that they were new in
  uint8_t ghost_class = 0, ghost_age = 0, ghost_run = 0;  // what statistics know them by
  uint32_t prefix = 0;      // names the last block that many others begin with too; 0: none
  uint8_t turn_seen = 0;    // the highest turn that a block which was known was new in
  bool has_begun = false;   // there is a sequence, and what it begins with has been told
  bool past_known = false;  // the sequence has published a block that was not known
  bool lru_streak = true;   // so far a cache that evicts the least recently used would have hit
};

// An order of the cached blocks that nobody uses. All operations take O(1) amortised time for each
// block and allocate nothing after construction. A block that is_needed() is never the victim: a
// policy that comes upon one sets it aside (parks it) until OnChildless.
//
// A sequence calls Use when it begins, and once more if a block that it does not begin with is
// copied for it; Add as its blocks are published; and Release, of all blocks or a part at a time,
// when it leaves. All with the same SequenceUse. Add and Release are also called without a
// sequence, for a block that takes the place of another with its key or is no longer retained, with
// one that is as it starts out. Threading: the engine's thread.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // It is `now`. Where nobody says so, no time passes.
  virtual void OnTime(Time /*now*/) {}

  // A sequence begins with the cached blocks `found`, which may be none, the first of its chain
  // first. Called before they count the new user: those without one leave the order, parked ones
  // included. Blocks that are retained are in `found` but not in the order.
  virtual void Use(std::span<const BlockId> found, SequenceUse& use) = 0;

  // `id` has been published under a key that no other block carries, and has a user.
  virtual void Add(BlockId id, SequenceUse& use) = 0;

  // The sequence's published blocks `freed`, the first of its chain first, have lost their last
  // user and enter the order, the last first.
  virtual void Release(std::span<const BlockId> freed, const SequenceUse& use) = 0;

  // Chooses the victim and takes it out of the order; kNoBlock if the order has none. The block is
  // still published when this is called, and unpublished right after.
  virtual BlockId Evict() = 0;

  // Takes a block out of the order without its being a victim: it is no longer published, or is
  // retained from now on.
  virtual void Remove(BlockId id) = 0;

  // `id`, which is in the order, is not needed any more: it has lost its last child, or another
  // block carries its key.
  virtual void OnChildless(BlockId id) = 0;

  // The order is empty from now on. What was learned may stay.
  virtual void Clear() = 0;

  // Whether blocks that are not published stand in the order too (they do in the field's LRU);
  // else they are taken before any victim. If so, Release and Remove are called for them as well.
  virtual bool orders_unpublished() const { return false; }
  // Whether one of those is the next victim.
  virtual bool is_next_unpublished() const { return false; }

  virtual size_t num_bytes() const = 0;  // of memory, whole
};

// `blocks` is the pool's metadata, which outlives the policy: of the blocks in its order, a policy
// uses prev and next and reads the rest. `capacity` (blocks, 1 or more) is what the policy sizes
// its memory of the past by; the pool's size, or less where only so many are to stay cached.
// `block_size`: tokens of a block, 1 or more; of shorter blocks more are used together.
std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(EvictionPolicyKind kind, std::span<Block> blocks,
                                                   int32_t capacity, int32_t block_size);

}  // namespace incipit
