// Retention: a request may ask the cache to keep the blocks of the request longer or shorter than
// the eviction policy would keep them.
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

// The retention hint of a request: how long the cache should keep its blocks. A hint is not a
// guarantee.
struct Retention {
  // Number from 0 to 100; blocks of lower priority are evicted first.
  int32_t priority = kRetentionPriorityDefault;
  // Maximum time that blocks stay cached after the end of the request; zero: no limit.
  Duration time_to_live{};
  // Time after the end of the request in which the blocks are pinned (evicted last); zero: not
  // pinned.
  Duration pin{};

  bool is_default() const {
    return priority == kRetentionPriorityDefault && time_to_live == Duration::zero() &&
           pin == Duration::zero();
  }
};

struct RetentionLimits {
  // Maximum share of all cache blocks for the blocks of one tenant that are pinned or have a
  // priority above the default.
  double tenant_share_max = 0.25;
  // Time after the end of a request in which a retention priority above the default decreases to
  // the default. Also the maximum duration of a pin.
  Duration duration_max = std::chrono::minutes(10);
};

// Orders the cached blocks that no request uses and for which a request has set a retention hint.
// The priority in the hint determines an eviction level for all blocks of the request. Blocks of a
// lower eviction level are evicted first. Blocks without a hint are evicted after all levels
// below the default level, and before all levels above.
//
// At most kGroupsMax requests have a hint at a time; further hints have no effect.
class RetainedBlocks {
 public:
  static constexpr int32_t kGroupsMax = 1024;

  RetainedBlocks(const RetentionLimits& limits, std::span<Block> blocks);

  // Sets the retention hint of a request on its `blocks`, which are in the order of their tokens.
  // The hint applies only to the first blocks, up to a block that lookups cannot find. A hint above
  // the default level also ends at the tenant's maximum share of the cache. REQUIRES: all `blocks`
  // have users.
  void Assign(std::span<const BlockId> blocks, const Retention& hint, uint64_t tenant, Time now);

  // Adds block `id`, which has lost its last user, to the blocks that are kept by a retention hint.
  // Returns false if `id` has no retention hint.
  bool Put(BlockId id);
  // Removes block `id` from the blocks that a retention hint keeps, because a request uses the
  // block again. Does not delete the hint. REQUIRES: `id` has no users and has a retention hint.
  void Take(BlockId id);
  // Deletes the retention hint of block `id`.
  void Forget(BlockId id);
  // Gives block `id` the retention hint of block `from`, unless `id` already has a hint that keeps
  // it longer (a higher eviction level). REQUIRES: `id` has users.
  void Inherit(BlockId id, BlockId from);

  // Returns the block to evict first among the free blocks with an eviction level below the
  // default. These blocks are evicted before all blocks without a retention hint. Returns kNoBlock
  // if there is no such block.
  BlockId FrontBelow() const;
  // Returns the block to evict first among the free blocks with an eviction level above the
  // default. These blocks are evicted after all blocks without a retention hint. Returns kNoBlock
  // if there is no such block.
  BlockId FrontAbove() const;

  // The result of TakeDue(): a block whose retention hint has ended, or kNoBlock. `expired` is true
  // if the hint ended because the time to live of the block is over.
  struct Due {
    BlockId block = kNoBlock;
    bool expired = false;
  };
  // Searches for a retention hint that is over at time `now`, and ends the hint for one block. The
  // caller must call TakeDue() until AnyDue(now) returns false, because one call handles one block.
  Due TakeDue(Time now);
  // Returns true if a retention hint has possibly ended at time `now`. The caller must then call
  // TakeDue(now).
  bool AnyDue(Time now) const { return next_due_ <= now; }

  // Number of free blocks with a retention hint.
  int32_t num_retained() const { return num_retained_; }
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
    int32_t num_blocks = 0;  // number of blocks of the request, with and without users
    int32_t level = 0;
    // Previous and next group in a list of groups, as indices in `groups_`; -1: none. A group
    // contains the blocks of one request with a retention hint (a client's request to keep blocks).
    // The groups of a list are evicted one after another.
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
  // Element i identifies the group of block i: index in `groups_` and generation number. 0: block i
  // has no group. A group contains the blocks of one request with a retention hint (a client's
  // request to keep blocks). The generation number changes when another group gets the index.
  std::vector<uint32_t> marks_;
  // Earliest time at which a retention hint may end or may change the order of eviction.
  Time next_due_ = Time::max();
  // Index of the group of blocks at which the next call of TakeDue() begins. Each call examines
  // only some groups. A group contains the blocks of one request with a retention hint (a client's
  // request to keep blocks).
  int32_t due_index_ = 0;
  // Earliest time at which a retention hint ends or changes the order of eviction. Considers only
  // the hints of the groups (requests) with an index below `due_index_`.
  Time due_after_ = Time::max();
  GroupList levels_[kNumLevels];
  int32_t num_retained_ = 0;
};

}  // namespace incipit
