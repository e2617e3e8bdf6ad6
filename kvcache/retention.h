// Retention: a request may ask the cache to keep its blocks longer or shorter than the eviction
// policy would keep them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "kvcache/pool/block.h"

namespace incipit {

inline constexpr int32_t kRetentionPriorityMax = 100;
inline constexpr int32_t kRetentionPriorityDefault = 50;

// The retention hint of a request: how long the cache should keep the blocks of the request. A hint
// is not a guarantee. RetainedBlocks describes the effect of a hint.
struct Retention {
  // From 0 to 100; blocks of lower priority are evicted first.
  int32_t priority = kRetentionPriorityDefault;
  // Maximum time from the end of the request to the eviction; zero: no limit.
  Duration time_to_live{};
  // Time after the end of the request in which the blocks are pinned. Pinned blocks are evicted
  // last. Zero: not pinned.
  Duration pin{};

  bool is_default() const {
    return priority == kRetentionPriorityDefault && time_to_live == Duration::zero() &&
           pin == Duration::zero();
  }
};

struct RetentionLimits {
  // Maximum share of the pool for blocks of one tenant that are pinned or above the default
  // priority.
  double tenant_share_max = 0.25;
  // Time after which a priority above the default has decayed to the default. Also the maximum
  // duration of a pin.
  Duration duration_max = std::chrono::minutes(10);
};

// Keeps the retained blocks: cached blocks without users whose request set a retention hint. The
// blocks of one request form a group, and each group has an eviction level.
//
// Blocks below the default level are evicted before the blocks of the eviction policy. Blocks above
// the default level are evicted after the blocks of the policy, and pinned blocks last. Within a
// level, the group that was freed first is evicted first. Within a group, the last block of the
// sequence is evicted first.
//
// A level above the default decays to the default in equal steps over duration_max. If a group has
// the default priority and a time to live, its level is above the default in the first half of the
// time to live, and below the default in the second half.
//
// A hint has no effect on blocks beyond the tenant's maximum share of the pool. A new hint has no
// effect while all kGroupsMax groups are in use. All operations cost O(1) per block, and
// O(kGroupsMax) per request with a hint.
class RetainedBlocks {
 public:
  static constexpr int32_t kGroupsMax = 1024;

  RetainedBlocks(const RetentionLimits& limits, std::span<Block> blocks);

  // Sets the retention hint of a request on its blocks, which are in the order of their tokens. The
  // hint applies to the leading blocks that lookups can find, up to the tenant's maximum share of
  // the pool. REQUIRES: all `blocks` have users.
  void Assign(std::span<const BlockId> blocks, const Retention& hint, uint64_t tenant, Time now);

  // Adds block `id`, which lost its last user, to the retained blocks of its group. Returns false
  // if `id` has no retention hint.
  bool Put(BlockId id);
  // Removes block `id` from the retained blocks because a request uses the block again. The block
  // keeps its retention hint. REQUIRES: `id` is retained.
  void Take(BlockId id);
  // Deletes the retention hint of block `id`.
  void Forget(BlockId id);
  // Copies the retention hint of block `from` to block `id`, unless `id` already has a hint with a
  // higher eviction level. REQUIRES: `id` has users.
  void Inherit(BlockId id, BlockId from);

  // Returns the block that is evicted next among the retained blocks below the default level, or
  // kNoBlock.
  BlockId FrontBelow() const;
  // Returns the block that is evicted next among the retained blocks above the default level, or
  // kNoBlock.
  BlockId FrontAbove() const;

  // The result of TakeDue: a block whose retention has ended. `expired` is true if the time to live
  // of the block is over, and false if its level has decayed to the default. `block` may be
  // kNoBlock.
  struct Due {
    BlockId block = kNoBlock;
    bool expired = false;
  };
  // Ends the retention of one block whose retention is over at time `now`, and returns the block.
  // Among the blocks of one request, the last block of the sequence is returned first. The caller
  // must repeat the call until AnyDue(`now`) returns false.
  Due TakeDue(Time now);
  // Returns whether the retention of a block may end at time `now`.
  bool AnyDue(Time now) const { return next_due_ <= now; }

  int32_t num_retained() const { return num_retained_; }  // number of retained blocks in all groups
  size_t num_bytes() const;
  void Clear();

 private:
  static constexpr int32_t kNumLevels = 12;
  static constexpr int32_t kDefaultLevel = 5, kPinnedLevel = 11;

  struct BlockGroup {
    // Blocks of the request that have no users. The front is the last block of the sequence.
    BlockList blocks;
    Retention hint;
    Time start{}, due{};
    uint64_t tenant = 0;
    int32_t num_blocks = 0;  // number of all blocks of the group, with and without users
    int32_t level = 0;
    // Neighbours of this group (the blocks of one request) in the list of the groups with the same
    // eviction level.
    int32_t prev = -1, next = -1;
    uint32_t generation = 1;
  };
  struct GroupList {
    int32_t front = -1, back = -1;
  };

  BlockGroup& Group(int32_t index) { return groups_[static_cast<size_t>(index)]; }
  const BlockGroup& Group(int32_t index) const { return groups_[static_cast<size_t>(index)]; }
  uint32_t& Mark(BlockId id) { return marks_[static_cast<size_t>(id)]; }
  int32_t GroupOf(BlockId id) const;
  bool CountsAbove(const BlockGroup& group, uint64_t tenant) const;
  int64_t RoomAbove(uint64_t tenant) const;
  int32_t LevelAt(const BlockGroup& group, Time now) const;
  Time NextChange(const BlockGroup& group, Time now) const;
  void Link(int32_t index);
  void Unlink(int32_t index);
  void Leave(BlockId id);
  void End(int32_t index);
  BlockId Front(int32_t level_begin, int32_t level_end) const;

  RetentionLimits limits_;
  std::span<Block> blocks_;
  std::vector<BlockGroup> groups_;
  std::vector<int32_t> free_groups_;
  // Element i encodes the group (the blocks of one request with a retention hint) of block i: the
  // index of the group in `groups_`, and its generation. 0: block i is in no group.
  std::vector<uint32_t> marks_;
  // Before this time, no group (the retained blocks of one request) changes its eviction level or
  // ends.
  Time next_due_ = Time::max();
  // Index, in `groups_`, of the group (the blocks of one request with a retention hint) that the
  // next call of TakeDue examines first.
  int32_t due_index_ = 0;
  // Earliest time at which a group (the blocks of one request with a retention hint) that TakeDue
  // has already examined changes its eviction level or ends.
  Time due_after_ = Time::max();
  GroupList levels_[kNumLevels];
  int32_t num_retained_ = 0;
};

}  // namespace incipit
