#include "kvcache/block_pool.h"

#include "base/check.h"

namespace incipit {

BlockPool::BlockPool(int32_t num_blocks)
    : blocks_(static_cast<size_t>(num_blocks)), index_(num_blocks) {
  static_assert(sizeof(Block) == 64);
  for (int32_t i = 0; i < num_blocks; ++i) PushBack(BlockId{i});
}

BlockId BlockPool::Find(const BlockHash& hash) const {
  return index_.Find(hash.prefix(), [&](BlockId id) { return At(id).hash == hash; });
}

BlockId BlockPool::Take() {
  INCIPIT_CHECK(head_ != kNoBlock);
  const BlockId id = head_;
  if (At(id).published) {
    Unpublish(id);
    ++num_evictions_;
  }
  Unlink(id);
  At(id).num_users = 1;
  return id;
}

void BlockPool::AddUser(BlockId id) {
  if (At(id).num_users++ == 0) Unlink(id);
}

void BlockPool::RemoveUser(BlockId id) {
  INCIPIT_CHECK(At(id).num_users > 0);
  if (--At(id).num_users == 0) PushBack(id);
}

void BlockPool::Publish(BlockId id, const Key& key) {
  Block& block = At(id);
  INCIPIT_CHECK(block.num_users > 0 && !block.published);
  const BlockId first = Find(key.hash);
  block.hash = key.hash;
  block.parent_tag = key.parent.prefix();
  block.starts_chain = key.starts_chain;
  block.published = true;
  block.answers = first == kNoBlock;
  if (block.answers) {
    block.prev_same = block.next_same = id;
    index_.Insert(key.hash.prefix(), id);
    return;
  }
  const BlockId last = At(first).prev_same;
  block.prev_same = last;
  block.next_same = first;
  At(last).next_same = id;
  At(first).prev_same = id;
}

void BlockPool::Unpublish(BlockId id) {
  Block& block = At(id);
  INCIPIT_CHECK(block.published);
  const BlockId next = block.next_same;
  if (block.answers && next == id) {
    index_.Remove(block.hash.prefix(), id);
  } else if (block.answers) {
    index_.Replace(block.hash.prefix(), id, next);
    At(next).answers = true;
  }
  At(block.prev_same).next_same = next;
  At(next).prev_same = block.prev_same;
  block.prev_same = block.next_same = kNoBlock;
  block.published = block.answers = false;
  if (block.num_users == 0) --num_cached_free_;
}

void BlockPool::UnpublishAll() {
  INCIPIT_CHECK(num_free_ == num_blocks());
  for (Block& block : blocks_) {
    block.published = block.answers = false;
    block.prev_same = block.next_same = kNoBlock;
  }
  index_.Clear();
  num_cached_free_ = 0;
}

void BlockPool::PushBack(BlockId id) {
  Block& block = At(id);
  block.prev = tail_;
  block.next = kNoBlock;
  (tail_ == kNoBlock ? head_ : At(tail_).next) = id;
  tail_ = id;
  ++num_free_;
  if (block.published) ++num_cached_free_;
}

void BlockPool::Unlink(BlockId id) {
  Block& block = At(id);
  (block.prev == kNoBlock ? head_ : At(block.prev).next) = block.next;
  (block.next == kNoBlock ? tail_ : At(block.next).prev) = block.prev;
  block.prev = block.next = kNoBlock;
  --num_free_;
  if (block.published) --num_cached_free_;
}

std::vector<BlockId> BlockPool::FreeOrder() const {
  std::vector<BlockId> order;
  for (BlockId id = head_; id != kNoBlock; id = At(id).next) order.push_back(id);
  return order;
}

void BlockPool::CheckInvariants() const {
  int32_t num_queued = 0, num_cached = 0;
  BlockId previous = kNoBlock;
  for (BlockId id = head_; id != kNoBlock; id = At(id).next) {
    INCIPIT_CHECK(At(id).num_users == 0 && At(id).prev == previous);
    INCIPIT_CHECK(++num_queued <= num_blocks());  // no cycle
    num_cached += At(id).published;
    previous = id;
  }
  INCIPIT_CHECK(previous == tail_ && num_queued == num_free_ && num_cached == num_cached_free_);

  int32_t num_without_user = 0, num_answering = 0;
  for (int32_t i = 0; i < num_blocks(); ++i) {
    const Block& block = At(BlockId{i});
    num_without_user += block.num_users == 0;
    num_answering += block.answers;
    INCIPIT_CHECK(block.published || !block.answers);
    if (!block.published) continue;
    INCIPIT_CHECK(At(block.next_same).prev_same == BlockId{i});
    INCIPIT_CHECK(At(block.next_same).hash == block.hash && At(block.next_same).published);
    const BlockId answering = Find(block.hash);
    INCIPIT_CHECK(answering != kNoBlock && At(answering).answers);
    INCIPIT_CHECK(block.answers == (answering == BlockId{i}));
  }
  INCIPIT_CHECK(num_without_user == num_free_ && num_answering == index_.size());
}

}  // namespace incipit
