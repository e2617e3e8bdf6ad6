// The functions of BlockPool that maintain circular lists of blocks with equal keys, and trees of
// blocks with common prefixes.
#include <algorithm>

#include "base/check.h"
#include "kvcache/pool/block_pool.h"

namespace incipit {
namespace {

// Encodes `slot`, an index in `chains_` (hash table of the blocks that begin a sequence), as a
// negative block id. The first block of the list chains_[slot] has this id as its prev_sibling.
BlockId SlotMark(size_t slot) { return BlockId{-2 - static_cast<int32_t>(slot)}; }
size_t SlotOfMark(BlockId mark) { return static_cast<size_t>(-2 - static_cast<int32_t>(mark)); }
bool IsBlock(BlockId id) { return static_cast<int32_t>(id) >= 0; }

}  // namespace

BlockId BlockPool::Find(const BlockHash& hash) const {
  return index_.Find(hash.prefix(), [&](BlockId id) { return SameDigest(At(id).hash, hash); });
}

void BlockPool::LinkChild(BlockId id, BlockId parent, size_t chain_slot) {
  Block& block = At(id);
  BlockId& first = parent == kNoBlock ? chains_[chain_slot] : At(parent).first_child;
  block.parent = parent;
  block.prev_sibling = parent == kNoBlock ? SlotMark(chain_slot) : kNoBlock;
  block.next_sibling = first;
  if (first != kNoBlock) At(first).prev_sibling = id;
  first = id;
}

void BlockPool::UnlinkChild(BlockId id) {
  Block& block = At(id);
  if (block.next_sibling != kNoBlock) At(block.next_sibling).prev_sibling = block.prev_sibling;
  if (IsBlock(block.prev_sibling)) {
    At(block.prev_sibling).next_sibling = block.next_sibling;
  } else if (block.parent == kNoBlock) {
    chains_[SlotOfMark(block.prev_sibling)] = block.next_sibling;
  } else {
    Block& parent = At(block.parent);
    parent.first_child = block.next_sibling;
    const bool in_order = parent.num_users == 0 && !parent.retained;
    if (!parent.has_children() && in_order) policy_->OnChildless(block.parent);
  }
  block.parent = block.next_sibling = block.prev_sibling = kNoBlock;
}

void BlockPool::LeaveRing(BlockId id) {
  BlockId before = id;
  while (At(before).next_same != id) before = At(before).next_same;
  At(before).next_same = At(id).next_same;
  At(id).next_same = kNoBlock;
}

// Gives the role of block `id` to block `to`, which has the same key. Lookups then return `to`, and
// the blocks that directly follow `id` in sequences now follow `to`. The cost is O(number of these
// blocks).
void BlockPool::HandOver(BlockId id, BlockId to) {
  Block& from = At(id);
  Block& heir = At(to);
  index_.Replace(from.hash.prefix(), id, to);
  heir.canonical = true;
  heir.emitted_in = from.emitted_in;
  from.emitted_in = 0;
  if (sweep_.next == id) sweep_.next = to;
  heir.parent = from.parent;
  heir.first_child = from.first_child;
  heir.next_sibling = from.next_sibling;
  heir.prev_sibling = from.prev_sibling;
  for (BlockId child = heir.first_child; child != kNoBlock; child = At(child).next_sibling) {
    At(child).parent = to;
  }
  if (heir.next_sibling != kNoBlock) At(heir.next_sibling).prev_sibling = to;
  if (IsBlock(heir.prev_sibling)) {
    At(heir.prev_sibling).next_sibling = to;
  } else if (heir.parent == kNoBlock) {
    chains_[SlotOfMark(heir.prev_sibling)] = to;
  } else {
    At(heir.parent).first_child = to;
  }
  from.parent = from.first_child = from.next_sibling = from.prev_sibling = kNoBlock;
  if (heir.num_users > 0) retained_.Inherit(to, id);
  if (heir.pending) return;  // the block is not computed yet; Confirm() will call policy_->Add()
  SequenceUse use;
  policy_->Add(to, BlockOrigin::kComputed, use);
}

// Removes block `id` from the list of blocks with its key and from the tree of cached prefixes.
// Does not change the eviction order. Returns true if no other block has the key of `id`. The
// caller must then call EraseKey().
//
// REQUIRES: if no other block has the key of `id`, no cached block follows `id` in a sequence.
bool BlockPool::Detach(BlockId id) {
  Block& block = At(id);
  INCIPIT_CHECK(block.published);
  const BlockId next = block.next_same;
  const bool last_of_key = next == id;
  if (!last_of_key) LeaveRing(id);
  if (last_of_key) {
    INCIPIT_CHECK(!block.has_children());
    if (sweep_.next == id) LeaveSubtree(id);
    UnlinkChild(id);
  } else if (block.canonical) {
    HandOver(id, next);
  }
  if (block.has_hint) retained_.Forget(id);
  block.next_same = kNoBlock;
  block.published = block.pending = block.canonical = block.starts_chain = false;
  return last_of_key;
}

void BlockPool::Unpublish(BlockId id) {
  if (Detach(id)) EraseKey(id);
}

void BlockPool::EraseKey(BlockId id) {
  Block& block = At(id);
  index_.Remove(block.hash.prefix(), id);
  CountChange(block.hash);
  if (is_emitted(block)) event_log_.AddRemoved(block.hash);
  block.emitted_in = 0;
}

// Makes block `id` unfindable for lookups, even if requests use the block.
void BlockPool::Unfind(BlockId id) {
  const Block& block = At(id);
  const bool free = block.num_users == 0;
  const bool retained = block.retained;
  if (free && !is_lru_ && !retained) policy_->Remove(id);
  Unpublish(id);
  if (!free) return;
  --num_cached_free_;
  if (!is_lru_) unpublished_.PushBack(blocks_, id);
  if (is_lru_ && retained) policy_->Release({&id, 1}, {});
}

void BlockPool::UnpublishTree(const BlockHash& hash) {
  for (BlockId root = Find(hash); root != kNoBlock; root = Find(hash)) {
    for (BlockId id = root; id != kNoBlock;) {
      while (At(id).has_children()) id = At(id).first_child;
      const BlockId parent = id == root ? kNoBlock : At(id).parent;
      while (At(id).next_same != id) Unfind(At(id).next_same);
      Unfind(id);
      id = parent;
    }
  }
}

void BlockPool::UnpublishAll() {
  INCIPIT_CHECK(num_free_ == num_blocks());
  evictions_.by_reason[static_cast<size_t>(EvictionReason::kReset)] += num_cached_free_;
  for (Block& block : blocks_) {
    block.published = block.pending = block.canonical = block.starts_chain = false;
    block.emitted_in = 0;
    block.next_same = block.parent = block.first_child = kNoBlock;
    block.next_sibling = block.prev_sibling = kNoBlock;
  }
  event_log_.AddMark(KvEvent::Kind::kCleared);
  index_.Clear();
  ++num_starts_;  // changes the result of num_changes() for every block key
  std::ranges::fill(chains_, kNoBlock);
  sweep_ = {.slot = chains_.size()};
  num_cached_free_ = 0;
  // With the policy `lru`, all free blocks must be in the eviction order of the policy. Add the
  // free blocks that retention hints had removed from this order.
  if (is_lru_) {
    while (retained_.num_retained() > 0) {
      BlockId id = retained_.FrontBelow();
      if (id == kNoBlock) id = retained_.FrontAbove();
      retained_.Forget(id);
      policy_->Release({&id, 1}, {});
    }
    retained_.Clear();
    return;
  }
  retained_.Clear();
  policy_->Clear();
  unpublished_ = {};
  for (int32_t i = 0; i < num_blocks(); ++i) unpublished_.PushBack(blocks_, BlockId{i});
}

std::vector<BlockId> BlockPool::FreeOrder() const {
  INCIPIT_CHECK(is_lru_);
  std::vector<BlockId> order;
  for (BlockId id = unpublished_.front; id != kNoBlock; id = At(id).next) order.push_back(id);
  // Find the first block of the eviction order: a free block whose `prev` is kNoBlock.
  for (int32_t i = 0; i < num_blocks(); ++i) {
    const Block& block = At(BlockId{i});
    const bool elsewhere =
        block.num_users > 0 || block.retained || BlockId{i} == unpublished_.front;
    if (elsewhere || block.prev != kNoBlock) continue;
    for (BlockId id{i}; id != kNoBlock; id = At(id).next) order.push_back(id);
    break;
  }
  return order;
}

void BlockPool::CheckLinks() const {
  for (int32_t i = 0; i < num_blocks(); ++i) {
    const Block& block = At(BlockId{i});
    INCIPIT_CHECK(block.canonical || !block.has_children());
    if (!block.canonical) continue;
    INCIPIT_CHECK(Find(block.hash) == BlockId{i});
    INCIPIT_CHECK(block.starts_chain == (block.parent == kNoBlock));
    INCIPIT_CHECK(block.parent == kNoBlock || At(block.parent).canonical);
    BlockId before = kNoBlock;
    for (BlockId child = block.first_child; child != kNoBlock; child = At(child).next_sibling) {
      INCIPIT_CHECK(At(child).parent == BlockId{i} && At(child).prev_sibling == before);
      INCIPIT_CHECK(At(child).canonical && !At(child).starts_chain);
      before = child;
    }
    for (BlockId same = block.next_same; same != BlockId{i}; same = At(same).next_same) {
      INCIPIT_CHECK(At(same).published && !At(same).canonical && At(same).hash == block.hash);
    }
  }
}

void BlockPool::CheckInvariants() const {
  int32_t num_free = 0, num_cached = 0, num_retained = 0, num_canonical = 0;
  for (int32_t i = 0; i < num_blocks(); ++i) {
    const Block& block = At(BlockId{i});
    INCIPIT_CHECK(block.published || (!block.canonical && !block.pending && !block.has_children()));
    INCIPIT_CHECK(block.published == (block.next_same != kNoBlock));
    INCIPIT_CHECK(!block.pending || block.num_users > 0);
    INCIPIT_CHECK(!block.retained || (block.published && block.num_users == 0));
    num_canonical += block.canonical;
    num_retained += block.retained;
    if (block.num_users > 0) continue;
    ++num_free;
    num_cached += block.published;
    if (is_lru_ || !block.published) continue;
    // A cached block without users must be canonical (the block that lookups return for its key).
    // If `block` is the only block with its key, its children (next blocks in sequences) must have
    // no users. Otherwise, the next block with this key must be pending (not computed yet).
    INCIPIT_CHECK(block.canonical);
    if (block.next_same != BlockId{i}) {
      INCIPIT_CHECK(At(block.next_same).pending);
      continue;
    }
    for (BlockId child = block.first_child; child != kNoBlock; child = At(child).next_sibling) {
      INCIPIT_CHECK(At(child).num_users == 0);
    }
  }
  INCIPIT_CHECK(num_free == num_free_ && num_cached == num_cached_free_);
  INCIPIT_CHECK(num_retained == retained_.num_retained() && num_canonical == index_.size());
  CheckLinks();
}

}  // namespace incipit
