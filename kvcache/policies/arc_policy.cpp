#include "kvcache/policies/arc_policy.h"

#include <algorithm>

namespace incipit {

ArcPolicy::ArcPolicy(std::span<Block> blocks, int32_t capacity)
    : order_(blocks, 2),
      lists_(blocks.size()),
      capacity_(capacity),
      table_(int64_t{capacity} * 3 / 2) {}

void ArcPolicy::Use(std::span<const BlockId> found, SequenceUse&) {
  for (const BlockId id : found) {
    if (order_.has(id)) Leave(id);
    ListOf(id) = 1;
  }
}

void ArcPolicy::Add(BlockId id, BlockOrigin origin, SequenceUse&) {
  const auto list = TakeGhost(id);
  ListOf(id) = list.has_value() || origin == BlockOrigin::kLoaded;
  if (!list) return;
  const double others = ghosts_[1 - *list].count, same = std::max(1.0, ghosts_[*list].count);
  const double step = std::max(1.0, others / same);
  target_ = *list == 0 ? std::min(capacity_, target_ + step) : std::max(0.0, target_ - step);
}

void ArcPolicy::Release(std::span<const BlockId> freed, const SequenceUse&) {
  for (size_t i = freed.size(); i-- > 0;) {
    order_.PushBack(ListOf(freed[i]), freed[i]);
    ++sizes_[ListOf(freed[i])];
  }
}

BlockId ArcPolicy::Evict() {
  const int preferred = sizes_[0] > target_ ? 0 : 1;
  BlockId victim = order_.Oldest(preferred);
  if (victim == kNoBlock) victim = order_.Oldest(1 - preferred);
  if (victim == kNoBlock) return kNoBlock;
  Leave(victim);
  Remember(victim);
  return victim;
}

void ArcPolicy::Leave(BlockId id) {
  --sizes_[static_cast<size_t>(order_.ListOf(id))];
  order_.Remove(id);
}

void ArcPolicy::OnChildless(BlockId id) {
  if (!order_.is_parked(id)) return;
  const int list = order_.ListOf(id);
  order_.Remove(id);
  order_.PushFront(list, id);
}

void ArcPolicy::Remember(BlockId id) {
  const size_t list = ListOf(id);
  ++stamp_;
  if (ghosts_[list].count < 1) ghosts_[list] = {.count = 0, .oldest = double(stamp_)};
  ++ghosts_[list].count;
  table_.Insert(At(order_.blocks(), id).hash.prefix(), 2 * stamp_ + list,
                [&](uint32_t memory) { return !IsRemembered(memory); });
  if (ghosts_[0].count + ghosts_[1].count <= capacity_) return;
  Ghosts& longer = ghosts_[ghosts_[0].count > ghosts_[1].count ? 0 : 1];
  longer.oldest += (stamp_ + 1 - longer.oldest) / longer.count;
  --longer.count;
}

std::optional<size_t> ArcPolicy::TakeGhost(BlockId id) {
  const auto memory = table_.Take(At(order_.blocks(), id).hash.prefix());
  if (!memory) return std::nullopt;
  const size_t list = *memory % 2;
  if (!IsRemembered(*memory)) return std::nullopt;
  --ghosts_[list].count;
  return list;
}

void ArcPolicy::Clear() {
  order_.Clear();
  sizes_ = {};
}

size_t ArcPolicy::num_bytes() const {
  return order_.num_bytes() + lists_.size() + table_.num_bytes();
}

}  // namespace incipit
