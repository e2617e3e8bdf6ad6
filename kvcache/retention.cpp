#include "kvcache/retention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

// Number of consecutive retention priorities that form one eviction level. Blocks of a lower
// eviction level are evicted first.
constexpr int32_t kLevelWidth = 10;
constexpr uint32_t kGroupBits = 10;
constexpr uint32_t kGroupMask = (1u << kGroupBits) - 1;
static_assert(RetainedBlocks::kGroupsMax == 1 << kGroupBits);

// Returns the eviction level of the retention priority `priority`. Blocks of a lower eviction level
// are evicted first. `default_level` is the level of the default priority.
int32_t LevelOf(int32_t priority, int32_t default_level) {
  const int32_t over = priority - kRetentionPriorityDefault;
  if (over <= 0) return priority / kLevelWidth;
  return default_level + (over + kLevelWidth - 1) / kLevelWidth;
}

}  // namespace

RetainedBlocks::RetainedBlocks(const RetentionLimits& limits, std::span<Block> blocks)
    : limits_(limits), blocks_(blocks), groups_(kGroupsMax), marks_(blocks.size(), 0) {
  INCIPIT_CHECK(limits.tenant_share_max >= 0 && limits.tenant_share_max <= 1);
  INCIPIT_CHECK(limits.duration_max > Duration::zero());
  for (int32_t i = kGroupsMax - 1; i >= 0; --i) free_groups_.push_back(i);
}

int32_t RetainedBlocks::GroupOf(BlockId id) const {
  const uint32_t mark = marks_[static_cast<size_t>(id)];
  const auto index = static_cast<int32_t>(mark & kGroupMask);
  return mark != 0 && Group(index).generation == mark >> kGroupBits ? index : -1;
}

void RetainedBlocks::Assign(std::span<const BlockId> blocks, const Retention& hint, uint64_t tenant,
                            Time now) {
  if (hint.is_default() || free_groups_.empty()) return;
  const int32_t index = free_groups_.back();
  free_groups_.pop_back();
  BlockGroup& group = Group(index);
  group.hint = hint;
  group.start = now;
  group.level = LevelAt(group, now);
  group.tenant = tenant;
  // Blocks with a hint above kDefaultLevel are evicted after all blocks without a hint. Each tenant
  // may have only a limited number of blocks above kDefaultLevel: the share tenant_share_max of the
  // cache.
  const bool is_above = group.level > kDefaultLevel;
  int64_t room = is_above ? RoomAbove(tenant) : 0;
  for (const BlockId id : blocks) {
    // A retention hint applies only to blocks that lookups can find.
    if (!At(blocks_, id).published) break;
    const int32_t before = GroupOf(id);
    if (before >= 0 && Group(before).level > group.level) continue;
    const bool counts = before >= 0 && CountsAbove(Group(before), tenant);
    if (is_above && !counts && room-- <= 0) break;
    if (before >= 0) Forget(id);
    Mark(id) = group.generation << kGroupBits | static_cast<uint32_t>(index);
    At(blocks_, id).has_hint = true;
    ++group.num_blocks;
  }
  if (group.num_blocks == 0) return End(index);
  group.due = NextChange(group, now);
  next_due_ = std::min(next_due_, group.due);
}

bool RetainedBlocks::CountsAbove(const BlockGroup& group, uint64_t tenant) const {
  return group.num_blocks > 0 && group.tenant == tenant && group.level > kDefaultLevel;
}

// Returns the number of further blocks for which `tenant` may set a retention priority above the
// default.
int64_t RetainedBlocks::RoomAbove(uint64_t tenant) const {
  const double share = limits_.tenant_share_max * static_cast<double>(blocks_.size());
  auto room = static_cast<int64_t>(share);
  for (const BlockGroup& group : groups_) {
    if (CountsAbove(group, tenant)) room -= group.num_blocks;
  }
  return room;
}

int32_t RetainedBlocks::LevelAt(const BlockGroup& group, Time now) const {
  const Duration age = now - group.start;
  if (age < std::min(group.hint.pin, limits_.duration_max)) return kPinnedLevel;
  int32_t level = LevelOf(group.hint.priority, kDefaultLevel);
  if (level > kDefaultLevel) {
    const double left = std::max(0.0, 1 - ToSeconds(age) / ToSeconds(limits_.duration_max));
    level = kDefaultLevel + static_cast<int32_t>(std::ceil((level - kDefaultLevel) * left));
  }
  const Duration life = group.hint.time_to_live;
  if (level == kDefaultLevel && life > Duration::zero()) level += age < life / 2 ? 1 : -1;
  return level;
}

// Returns the next time at which the eviction order of the blocks of one request (`group`) changes,
// or their time to live ends. Returns Time::max() if neither will happen.
Time RetainedBlocks::NextChange(const BlockGroup& group, Time now) const {
  Time change = Time::max();
  const Duration life = group.hint.time_to_live;
  if (life > Duration::zero()) {
    change = group.start + (now - group.start < life / 2 ? life / 2 : life);
  }
  if (group.level == kPinnedLevel) {
    change = std::min(change, group.start + std::min(group.hint.pin, limits_.duration_max));
  } else if (group.level > kDefaultLevel && now - group.start < limits_.duration_max) {
    const Duration step = limits_.duration_max / (kPinnedLevel - kDefaultLevel);
    change = std::min({change, now + step, group.start + limits_.duration_max});
  }
  return change;
}

bool RetainedBlocks::Put(BlockId id) {
  const int32_t index = GroupOf(id);
  if (index < 0) {
    Forget(id);
    return false;
  }
  BlockGroup& group = Group(index);
  if (group.blocks.empty()) Link(index);
  group.blocks.PushBack(blocks_, id);
  At(blocks_, id).retained = true;
  ++num_retained_;
  return true;
}

void RetainedBlocks::Take(BlockId id) {
  INCIPIT_CHECK(At(blocks_, id).retained);
  Leave(id);
}

void RetainedBlocks::Leave(BlockId id) {
  const int32_t index = GroupOf(id);
  BlockGroup& group = Group(index);
  group.blocks.Remove(blocks_, id);
  At(blocks_, id).retained = false;
  --num_retained_;
  if (group.blocks.empty()) Unlink(index);
}

void RetainedBlocks::Forget(BlockId id) {
  if (!At(blocks_, id).has_hint) return;
  At(blocks_, id).has_hint = false;
  const int32_t index = GroupOf(id);
  if (index < 0) return;
  if (At(blocks_, id).retained) Leave(id);
  Mark(id) = 0;
  if (--Group(index).num_blocks == 0) End(index);
}

void RetainedBlocks::Inherit(BlockId id, BlockId from) {
  const int32_t index = At(blocks_, from).has_hint ? GroupOf(from) : -1;
  if (index < 0) return;
  const int32_t before = At(blocks_, id).has_hint ? GroupOf(id) : -1;
  if (before >= 0 && Group(before).level > Group(index).level) return;
  Forget(id);
  Mark(id) = Mark(from);
  At(blocks_, id).has_hint = true;
  ++Group(index).num_blocks;
}

void RetainedBlocks::End(int32_t index) {
  BlockGroup& group = Group(index);
  INCIPIT_CHECK(group.blocks.empty());
  const uint32_t generation = (group.generation + 1) & (~0u >> kGroupBits);
  group = {};
  group.generation = std::max(1u, generation);
  free_groups_.push_back(index);
}

void RetainedBlocks::Link(int32_t index) {
  BlockGroup& group = Group(index);
  GroupList& list = levels_[group.level];
  group.prev = list.back;
  group.next = -1;
  (list.back < 0 ? list.front : Group(list.back).next) = index;
  list.back = index;
}

void RetainedBlocks::Unlink(int32_t index) {
  BlockGroup& group = Group(index);
  GroupList& list = levels_[group.level];
  (group.prev < 0 ? list.front : Group(group.prev).next) = group.next;
  (group.next < 0 ? list.back : Group(group.next).prev) = group.prev;
  group.prev = group.next = -1;
}

BlockId RetainedBlocks::Front(int32_t level_begin, int32_t level_end) const {
  for (int32_t level = level_begin; level < level_end; ++level) {
    if (levels_[level].front >= 0) return Group(levels_[level].front).blocks.front;
  }
  return kNoBlock;
}

BlockId RetainedBlocks::FrontBelow() const { return Front(0, kDefaultLevel); }
BlockId RetainedBlocks::FrontAbove() const { return Front(kDefaultLevel + 1, kNumLevels); }

RetainedBlocks::Due RetainedBlocks::TakeDue(Time now) {
  for (; due_index_ < kGroupsMax; ++due_index_) {
    BlockGroup& group = Group(due_index_);
    if (group.num_blocks == 0) continue;
    if (group.due > now) {
      due_after_ = std::min(due_after_, group.due);
      continue;
    }
    const Duration lives = group.hint.time_to_live;
    const bool expired = lives > Duration::zero() && now - group.start >= lives;
    const int32_t level = LevelAt(group, now);
    if (!expired && level != kDefaultLevel) {
      if (!group.blocks.empty()) Unlink(due_index_);
      group.level = level;
      if (!group.blocks.empty()) Link(due_index_);
      group.due = NextChange(group, now);
      due_after_ = std::min(due_after_, group.due);
      continue;
    }
    const BlockId id = group.blocks.front;
    if (id == kNoBlock) {
      // All blocks of the request are in use, so no block leaves the cache. Only the retention hint
      // ends.
      End(due_index_);
    } else {
      Forget(id);
    }
    return {.block = id, .expired = expired};
  }
  due_index_ = 0;
  next_due_ = std::exchange(due_after_, Time::max());
  return {};
}

size_t RetainedBlocks::num_bytes() const {
  return groups_.capacity() * sizeof(BlockGroup) + marks_.capacity() * sizeof(uint32_t);
}

void RetainedBlocks::Clear() {
  for (int32_t index = 0; index < kGroupsMax; ++index) {
    BlockGroup& group = Group(index);
    if (group.num_blocks == 0) continue;
    while (!group.blocks.empty()) Leave(group.blocks.back);
    End(index);
  }
  std::ranges::fill(marks_, 0);
  for (Block& block : blocks_) block.has_hint = false;
  next_due_ = due_after_ = Time::max();
  due_index_ = 0;
}

}  // namespace incipit
