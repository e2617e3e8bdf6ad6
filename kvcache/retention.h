// What a request may ask about how long its blocks stay cached, and the blocks that stay or go by
// such hints rather than by the eviction policy.
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

// Wishes, not guarantees: see RetainedBlocks.
struct Retention {
  int32_t priority = kRetentionPriorityDefault;  // 0 to 100; below the default goes first
  Duration time_to_live{};                       // since the request ended; zero: no limit
  Duration pin{};                                // since the request ended; zero: not pinned

  bool is_default() const {
    return priority == kRetentionPriorityDefault && time_to_live == Duration::zero() &&
           pin == Duration::zero();
  }
};

struct RetentionLimits {
  // Of the pool, for each tenant: what it may keep pinned or at a priority over the default.
  double tenant_share_max = 0.25;
  // After this a higher priority has decayed to the default; a pin lasts no longer either.
  Duration duration_max = std::chrono::minutes(10);
};

// Blocks without a user, grouped by the request that asked for their retention. A group stands at a
// level: below the default, evicted before whatever the policy orders; above, after it; pinned,
// only when nothing else is left. Above the default a level falls back to it in equal steps over
// duration_max. A time to live at the default priority puts a block above it in the first half of
// its life, below it in the second. Within a level the group that was freed first goes first, its
// last block first. A block that is used meanwhile comes back to its group. A tenant over its share
// and a request for which no group is free (kGroupsMax) get no retention for what exceeds. All
// operations take O(1) for each block and O(kGroupsMax) for each request with a hint.
class RetainedBlocks {
 public:
  static constexpr int32_t kGroupsMax = 1024;

  RetainedBlocks(const RetentionLimits& limits, std::span<Block> blocks);

  // Remembers the hint for as many of the published ones among the blocks of a sequence, the first
  // of its chain first, as the tenant's share allows. REQUIRES: they are in use.
  void Assign(std::span<const BlockId> blocks, const Retention& hint, uint64_t tenant, Time now);

  // `id` has lost its last user. True: it stands here now; false: it has no retention.
  bool Put(BlockId id);
  // `id` is used again; it keeps its group. REQUIRES: it stands here.
  void Take(BlockId id);
  // `id` is no longer published, or has no retention from now on.
  void Forget(BlockId id);
  // `id`, which is in use, takes the place of `from`: what was asked for that is asked for it,
  // unless it has a higher level of its own.
  void Inherit(BlockId id, BlockId from);

  // The next to go of those below (above) the default, or kNoBlock.
  BlockId FrontBelow() const;
  BlockId FrontAbove() const;

  // A block that leaves because its time to live is over (`expired`) by `now` or its hint has
  // faded; of a chain, the last comes first. None, where what came due only stands elsewhere now.
  // To be called until nothing is due.
  struct Due {
    BlockId block = kNoBlock;
    bool expired = false;
  };
  Due TakeDue(Time now);
  bool AnyDue(Time now) const { return next_due_ <= now; }

  int32_t num_retained() const { return num_retained_; }  // that stand here
  size_t num_bytes() const;
  void Clear();

 private:
  static constexpr int32_t kNumLevels = 12;
  static constexpr int32_t kDefaultLevel = 5, kPinnedLevel = 11;

  struct BlockGroup {
    BlockList blocks;  // without a user, the last of the chain in front
    Retention hint;
    Time start{}, due{};
    uint64_t tenant = 0;
    int32_t num_blocks = 0;  // standing here or in use
    int32_t level = 0;
    int32_t prev = -1, next = -1;  // in its level, while it has blocks without a user
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
  std::vector<uint32_t> marks_;   // for each block: its group and that group's generation; 0: none
  Time next_due_ = Time::max();   // no group is due earlier
  int32_t due_index_ = 0;         // TakeDue has looked at the groups before, of which none is due
  Time due_after_ = Time::max();  // before this
  GroupList levels_[kNumLevels];
  int32_t num_retained_ = 0;
};

}  // namespace incipit
