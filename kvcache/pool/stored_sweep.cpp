// The functions of BlockPool that report the cached blocks to a new reader of the log of cache
// events. The blocks are reported in parts, between which other blocks may be cached and evicted.
#include <algorithm>

#include "kvcache/pool/block_pool.h"

namespace incipit {

void BlockPool::Listen(const KvEventLogOptions& options) {
  scope_ = options.scope;
  event_log_.Open(options.events_max, options.tokens_max);
  RestartEvents();
}

void BlockPool::RestartEvents() {
  // The number of a log of cache events has 8 bits. When the numbers start again at 1, remove the
  // numbers of old logs from all blocks.
  if (++log_number_ == 0) {
    log_number_ = 1;
    for (Block& block : blocks_) block.emitted_in = 0;
  }
  sweep_ = {};
  event_log_.Restart();
}

// Sets the next position of the sweep (`sweep_`), when block `id` and all blocks that follow `id`
// are visited. The next position is the first of these that exists:
// 1. The next block with the same previous block as `id`.
// 2. The previous block of `id`.
// 3. The next slot of `chains_`, a hash table of the first blocks of sequences.
void BlockPool::LeaveSubtree(BlockId id) {
  const Block& block = At(id);
  const bool has_sibling = block.next_sibling != kNoBlock;
  sweep_.next = has_sibling ? block.next_sibling : block.parent;
  sweep_.is_left = !has_sibling;
  if (sweep_.next != kNoBlock) return;
  ++sweep_.slot;
  sweep_.is_left = false;
}

bool BlockPool::HasComputedChild(const Block& block) const {
  BlockId child = block.first_child;
  while (child != kNoBlock && At(child).pending) child = At(child).next_sibling;
  return child != kNoBlock;
}

// Visits a block only if the log of cache events has reported the previous block of its sequence.
// Confirm() reports blocks that are cached later at a position that is already visited.
//
// SweepCached() reports a pending block (not computed yet) only if a computed block follows. If the
// step of the pending block fails, the log reports that the block was removed.
bool BlockPool::SweepCached(size_t visits_max, absl::FunctionRef<void(BlockId)> report) {
  if (!event_log_.is_open()) return false;
  for (; visits_max > 0 && sweep_.slot < chains_.size(); --visits_max) {
    const BlockId id = sweep_.next;
    if (id == kNoBlock) {
      sweep_.next = chains_[sweep_.slot];
      sweep_.slot += sweep_.next == kNoBlock;
      continue;
    }
    const Block& block = At(id);
    if (sweep_.is_left) {
      LeaveSubtree(id);
      continue;
    }
    if ((!block.pending || HasComputedChild(block)) && BecomeStored(id)) report(id);
    if (is_emitted(block) && block.has_children()) {
      sweep_.next = block.first_child;
    } else {
      LeaveSubtree(id);
    }
  }
  return sweep_.slot == chains_.size();
}

template <typename F>
std::vector<BlockId> BlockPool::ParentsFirst(const F& is_listed) const {
  std::vector<BlockId> order, found;
  for (BlockId first : chains_) {
    for (; first != kNoBlock; first = At(first).next_sibling) found.push_back(first);
  }
  while (!found.empty()) {
    const BlockId id = found.back();
    found.pop_back();
    if (!is_listed(At(id))) continue;
    order.push_back(id);
    for (BlockId child = At(id).first_child; child != kNoBlock; child = At(child).next_sibling) {
      found.push_back(child);
    }
  }
  return order;
}

std::vector<BlockId> BlockPool::StoredOrder() const {
  return ParentsFirst([this](const Block& block) {
    return is_in_scope(block) && (!block.pending || is_emitted(block));
  });
}

std::vector<BlockId> BlockPool::CachedOrder() const {
  return ParentsFirst([](const Block& block) { return !block.pending; });
}

}  // namespace incipit
