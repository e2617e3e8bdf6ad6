#include "kvcache/block_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

// Chains by what they start with: a slot for every few blocks is enough, as most chains share one.
constexpr size_t kBlocksPerChainSlot = 16;

}  // namespace

BlockPool::BlockPool(const BlockPoolOptions& options)
    : blocks_(static_cast<size_t>(options.num_blocks)),
      index_(options.num_blocks),
      chains_(blocks_.size() / kBlocksPerChainSlot + 1, kNoBlock),
      times_(blocks_.size()),
      evicted_keys_(options.num_blocks),
      retained_(options.retention, blocks_),
      policy_(MakeEvictionPolicy(
          options.policy, blocks_,
          options.policy_capacity > 0 ? options.policy_capacity : options.num_blocks)),
      digest_bytes_(options.digest_bytes),
      is_lru_(policy_->orders_unpublished()) {
  freed_.reserve(blocks_.size());
  for (int32_t i = 0; i < options.num_blocks; ++i) freed_.push_back(BlockId{i});
  num_free_ = options.num_blocks;
  if (is_lru_) {
    std::ranges::reverse(freed_);  // a policy takes the last first
    policy_->Release(freed_, {});
  } else {
    for (const BlockId id : freed_) unpublished_.PushBack(blocks_, id);
  }
}

bool BlockPool::SameDigest(const BlockHash& a, const BlockHash& b) const {
  return std::memcmp(a.bytes.data(), b.bytes.data(), static_cast<size_t>(digest_bytes_)) == 0;
}

BlockId BlockPool::Find(const BlockHash& hash) const {
  return index_.Find(hash.prefix(), [&](BlockId id) { return SameDigest(At(id).hash, hash); });
}

void BlockPool::PrefetchBlock(const BlockHash& hash) const {
  const BlockId guess = index_.Guess(hash.prefix());
  if (guess != kNoBlock) __builtin_prefetch(&At(guess), 1);
}

BlockId BlockPool::Take() {
  INCIPIT_CHECK(num_free_ > 0);
  BlockId id = unpublished_.front;
  if (id != kNoBlock) {
    unpublished_.Remove(blocks_, id);
  } else {
    EvictionReason reason = EvictionReason::kCapacity;
    id = ChooseVictim(reason);
    if (At(id).published) {
      Evict(id, reason);
      --num_cached_free_;
    }
  }
  --num_free_;
  At(id).num_users = 1;
  return id;
}

// Out of where it stands. A retained block that others descend from goes to the policy's order,
// which gives it up after them.
BlockId BlockPool::ChooseVictim(EvictionReason& reason) {
  const auto front = [&](BlockId (RetainedBlocks::*next)() const) {
    while (true) {
      const BlockId id = (retained_.*next)();
      if (id == kNoBlock) return id;
      retained_.Forget(id);
      if (!At(id).has_children()) return id;
      policy_->Release({&id, 1}, {});
    }
  };
  BlockId id = front(&RetainedBlocks::FrontBelow);
  reason = id != kNoBlock ? EvictionReason::kPriority : EvictionReason::kCapacity;
  if (id == kNoBlock) id = policy_->Evict();
  if (id == kNoBlock) id = front(&RetainedBlocks::FrontAbove);
  if (id == kNoBlock) id = policy_->Evict();  // what the line before has moved there
  INCIPIT_CHECK(id != kNoBlock);
  return id;
}

// REQUIRES: `id` stands nowhere any more.
void BlockPool::Evict(BlockId id, EvictionReason reason) {
  const uint32_t now = MillisecondsOf(now_);
  ++evictions_.by_reason[static_cast<size_t>(reason)];
  evictions_.age.Add((now - TimesOf(id).published) * 1e-3);
  evictions_.idle.Add((now - TimesOf(id).freed) * 1e-3);
  if (At(id).next_same == id) evicted_keys_.Add(At(id).hash.prefix(), now);
  Unpublish(id);
}

void BlockPool::Use(std::span<const BlockId> found, SequenceUse& use) {
  for (const BlockId id : found) {
    if (At(id).retained) retained_.Take(id);
  }
  policy_->Use(found, use);
  for (const BlockId id : found) {
    Block& block = At(id);
    if (block.num_users++ > 0) continue;
    --num_free_;
    --num_cached_free_;
  }
}

void BlockPool::AddUser(BlockId id) {
  INCIPIT_CHECK(At(id).num_users > 0);
  ++At(id).num_users;
}

void BlockPool::Release(std::span<const BlockId> blocks, const SequenceUse& use) {
  freed_.clear();
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    Block& block = At(*it);
    INCIPIT_CHECK(block.num_users > 0);
    if (--block.num_users == 0 && BecomeFree(*it)) freed_.push_back(*it);
  }
  std::ranges::reverse(freed_);
  if (!freed_.empty()) policy_->Release(freed_, use);
}

// True: it is for the policy's order.
bool BlockPool::BecomeFree(BlockId id) {
  Block& block = At(id);
  ++num_free_;
  const bool has_duplicate = block.published && block.next_same != id;
  if (!is_lru_ && has_duplicate && !(block.answers && At(block.next_same).pending)) Unpublish(id);
  if (!block.published) {
    if (!is_lru_) unpublished_.PushBack(blocks_, id);
    return is_lru_;
  }
  ++num_cached_free_;
  TimesOf(id).freed = MillisecondsOf(now_);
  return !retained_.Put(id);
}

void BlockPool::PublishPending(BlockId id, const Key& key) {
  Block& block = At(id);
  INCIPIT_CHECK(block.num_users > 0 && !block.published);
  const BlockId first = Find(key.hash);
  block.hash = key.hash;
  block.published = block.pending = true;
  block.starts_chain = key.before == kNoBlock;
  block.answers = first == kNoBlock;
  block.next_same = id;
  if (block.answers) {
    index_.Insert(key.hash.prefix(), id);
    BlockId parent = key.before;
    if (parent != kNoBlock && !At(parent).answers) parent = Find(At(parent).hash);
    LinkChild(id, parent, ChainSlot(key.chain));
    return;
  }
  BlockId last = first;
  while (At(last).next_same != first) last = At(last).next_same;
  At(last).next_same = id;
  block.next_same = first;
}

void BlockPool::Confirm(BlockId id, SequenceUse& use) {
  Block& block = At(id);
  INCIPIT_CHECK(block.published && block.pending);
  block.pending = false;
  TimesOf(id).published = MillisecondsOf(now_);
  if (!block.answers) {
    const BlockId first = Find(block.hash);
    if (!is_lru_ && At(first).num_users == 0) Unfind(first);
    return;
  }
  regret_ += evicted_keys_.Take(block.hash.prefix());
  policy_->Add(id, use);
}

void BlockPool::Withdraw(BlockId id) {
  const Block& block = At(id);
  INCIPIT_CHECK(block.published && block.pending);
  // It may have taken the place of one that was given up meanwhile, and others descend from it.
  while (block.next_same == id && block.has_children()) UnpublishTree(At(block.first_child).hash);
  Unpublish(id);
}

void BlockPool::EvictTo(int32_t num_cached_max) {
  while (num_cached_free_ > num_cached_max) {
    EvictionReason reason = EvictionReason::kCapacity;
    const BlockId id = ChooseVictim(reason);
    if (At(id).published) {
      Evict(id, reason);
      --num_cached_free_;
    }
    unpublished_.PushBack(blocks_, id);
  }
}

void BlockPool::Advance(Time now) {
  if (!std::exchange(started_, true)) start_ = now;
  now_ = now;
  while (retained_.AnyDue(now)) {
    const RetainedBlocks::Due due = retained_.TakeDue(now);
    // From the last of the chain, so that what descends from a block has gone before it.
    for (auto it = due.blocks.rbegin(); it != due.blocks.rend(); ++it) {
      if (!due.expired || At(*it).has_children()) {
        policy_->Release({&*it, 1}, {});
        continue;
      }
      Evict(*it, EvictionReason::kTimeToLive);
      --num_cached_free_;
      if (is_lru_)
        policy_->Release({&*it, 1}, {});
      else
        unpublished_.PushBack(blocks_, *it);
    }
  }
}

uint32_t BlockPool::MillisecondsOf(Time time) const {
  return static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(time - start_).count());
}

EvictionStats BlockPool::TakeEvictionStats() { return std::exchange(evictions_, {}); }

int64_t BlockPool::TakeRegret() { return std::exchange(regret_, 0); }

size_t BlockPool::num_bytes() const {
  return blocks_.capacity() * sizeof(Block) + index_.num_bytes() +
         chains_.capacity() * sizeof(BlockId) + times_.capacity() * sizeof(Times) +
         freed_.capacity() * sizeof(BlockId) + evicted_keys_.num_bytes() + retained_.num_bytes() +
         policy_->num_bytes();
}

}  // namespace incipit
