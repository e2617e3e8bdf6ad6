#include "kvcache/policies/lru2_policy.h"

#include <algorithm>

namespace incipit {

Lru2Policy::Lru2Policy(std::span<Block> blocks, int32_t capacity)
    : order_(blocks, kFirstSlot + kSlots),
      uses_(blocks.size()),
      ghosts_(int64_t{capacity} * 9 / 8),
      touches_per_tick_(static_cast<uint64_t>(std::max(1, capacity / kTicksPerCapacity))) {}

void Lru2Policy::Use(std::span<const BlockId> found, SequenceUse&) {
  Advance(found.size());
  for (const BlockId id : found) {
    if (order_.has(id)) order_.Remove(id);
    UsesOf(id) = {.last = now(), .previous = UsesOf(id).last};
  }
}

void Lru2Policy::Add(BlockId id, BlockOrigin origin, SequenceUse&) {
  Advance(1);
  const auto memory = ghosts_.Take(At(order_.blocks(), id).hash.prefix());
  auto previous = static_cast<uint16_t>(memory.value_or(0));
  // The time of the previous use of a loaded block is unknown. So assume a time that is long ago.
  if (previous == 0 && origin == BlockOrigin::kLoaded) previous = LongAgo();
  UsesOf(id) = {.last = now(), .previous = previous};
}

void Lru2Policy::Release(std::span<const BlockId> freed, const SequenceUse&) {
  for (size_t i = freed.size(); i-- > 0;) {
    order_.PushBack(ListFor(UsesOf(freed[i]).previous), freed[i]);
  }
}

// Returns a time for which ListFor() returns kAncient.
uint16_t Lru2Policy::LongAgo() const {
  return static_cast<uint16_t>((now() + 0xffffu - kSlots - 1) % 0xffff + 1);
}

int Lru2Policy::ListFor(uint16_t previous) const {
  if (previous == 0) return kOnce;
  const uint64_t age = (now() + 0xffffu - previous) % 0xffff;
  return age >= kSlots ? kAncient : kFirstSlot + static_cast<int>((tick_ - age) % kSlots);
}

// Advances the clock by `num_touches` block uses. Moves to the list kAncient the blocks whose
// second-last use is now kSlots clock ticks ago.
void Lru2Policy::Advance(uint64_t num_touches) {
  num_touches_ += num_touches;
  while (num_touches_ >= touches_per_tick_) {
    num_touches_ -= touches_per_tick_;
    ++tick_;
    const int slot = kFirstSlot + static_cast<int>(tick_ % kSlots);
    for (BlockId id = order_.Front(slot); id != kNoBlock; id = order_.Front(slot)) {
      order_.Remove(id);
      order_.PushBack(kAncient, id);
    }
  }
}

BlockId Lru2Policy::Evict() {
  BlockId victim = order_.Oldest(kOnce);
  if (victim == kNoBlock) victim = order_.Oldest(kAncient);
  while (victim == kNoBlock) {
    const int list = order_.FirstOccupied(kFirstSlot + static_cast<int>((tick_ + 1) % kSlots));
    if (list < 0) return kNoBlock;
    victim = order_.Oldest(list);
  }
  order_.Remove(victim);
  const auto memory = static_cast<uint32_t>(tick_) << 16 | UsesOf(victim).last;
  ghosts_.Insert(At(order_.blocks(), victim).hash.prefix(), memory, [](uint32_t) { return false; });
  return victim;
}

void Lru2Policy::OnChildless(BlockId id) {
  if (!order_.is_parked(id)) return;
  // Make block `id` the oldest block of a list. A block that was used once returns to the list
  // kOnce. Any other block enters kAncient, the list of blocks whose second-last use is longest
  // ago.
  const int list = order_.ListOf(id) == kOnce ? kOnce : kAncient;
  order_.Remove(id);
  order_.PushFront(list, id);
}

size_t Lru2Policy::num_bytes() const {
  return order_.num_bytes() + uses_.size() * sizeof(Uses) + ghosts_.num_bytes();
}

}  // namespace incipit
