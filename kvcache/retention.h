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

// The retention hint of a request. A hint guarantees nothing; RetainedBlocks describes its effect.
struct Retention {
  // From 0 to 100; blocks of lower priority are evicted first.
  int32_t priority = kRetentionPriorityDefault;
  Duration time_to_live{};  // from the end of the request to the eviction; zero: no limit
  Duration pin{};  // from the end of the request; pinned blocks are evicted last; zero: not pinned

  bool is_default() const {
    return priority == kRetentionPriorityDefault && time_to_live == Duration::zero() &&
           pin == Duration::zero();
  }
};

struct RetentionLimits {
  // Maximum share of the pool that one tenant may keep pinned or above the default priority.
  double tenant_share_max = 0.25;
  // Time in which a priority above the default decays to the default. Also the maximum duration of
  // a pin.
  Duration duration_max = std::chrono::minutes(10);
};

// Keeps the retained blocks: cached blocks without users whose request set a retention hint. The
// blocks of one request form a group, and each group has an eviction level.
//
// Blocks at levels below the default are evicted before the blocks of the eviction policy. Blocks
// at levels above the default are evicted after the blocks of the policy, and pinned blocks last. A
// level above the default decays to the default in equal steps over duration_max. If a group has
// the default priority and a time to live, its level is above the default in the first half of that
// time. In the second half, the level is below the default.
//
// Within a level, the group that was freed first is evicted first. Within a group, the last block
// of the chain is evicted first. A block that is used again returns to its group when its users
// end. A hint has no effect on blocks beyond the pool share of the tenant. A new hint has no effect
// while all kGroupsMax groups are in use. All operations cost O(1) per block, and O(kGroupsMax) per
// request with a hint.
class RetainedBlocks {
 public:
  static constexpr int32_t kGroupsMax = 1024;

  RetainedBlocks(const RetentionLimits& limits, std::span<Block> blocks);

  // Sets the retention hint of a request on the published blocks at the start of `blocks`, up to
  // the pool share of the tenant. `blocks` are in the order of their tokens. REQUIRES: all `blocks`
  // have users.
  void Assign(std::span<const BlockId> blocks, const Retention& hint, uint64_t tenant, Time now);

  // Adds block `id`, which lost its last user, to the retained blocks of its group. Returns false
  // if `id` has no retention hint.
  bool Put(BlockId id);
  // Removes block `id` from the retained blocks because a request uses the block again. The block
  // keeps its retention hint. REQUIRES: `id` is retained.
  void Take(BlockId id);
  // Deletes the retention hint of block `id`.
  void Forget(BlockId id);
  // Copies the retention hint of block `from` to block `id`, unless `id` has a hint of a higher
  // level. REQUIRES: `id` has users.
  void Inherit(BlockId id, BlockId from);

  // Returns the retained block below the default level that is evicted next, or kNoBlock.
  BlockId FrontBelow() const;
  // Returns the retained block above the default level that is evicted next, or kNoBlock.
  BlockId FrontAbove() const;

  // A block whose retention ends, because its time to live is over (`expired` is true) or because
  // its level decayed to the default. `block` may be kNoBlock.
  struct Due {
    BlockId block = kNoBlock;
    bool expired = false;
  };
  // Ends the retention of one block at time `now`, and returns the block. In a group, the last
  // block of the chain is returned first. The caller must repeat the call until AnyDue(`now`)
  // returns false.
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
    BlockList blocks;  // blocks without users; the front is the last block of the chain
    Retention hint;
    Time start{}, due{};
    uint64_t tenant = 0;
    int32_t num_blocks = 0;  // number of blocks in the group, with or without users
    int32_t level = 0;
    int32_t prev = -1,
            next = -1;  // neighbour groups in the list of the same level
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
  // Group index and generation of each block; 0: the block is in no group.
  std::vector<uint32_t> marks_;
  Time next_due_ = Time::max();  // no group changes its level or ends before this time
  int32_t due_index_ = 0;        // index of the group that TakeDue examines next
  // Earliest due time of the groups that TakeDue has already examined.
  Time due_after_ = Time::max();
  GroupList levels_[kNumLevels];
  int32_t num_retained_ = 0;
};

}  // namespace incipit
