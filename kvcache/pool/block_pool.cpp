#include "kvcache/pool/block_pool.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

// Number of blocks for each slot of the hash table `chains_`, which finds the first blocks of
// sequences.
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
          options.policy_capacity > 0 ? options.policy_capacity : options.num_blocks,
          options.block_size)),
      short_digests_(options.short_digests),
      is_lru_(policy_->orders_unpublished()) {
  num_free_ = options.num_blocks;
  for (int32_t i = 0; i < options.num_blocks; ++i) {
    const BlockId id{i};
    if (is_lru_) {
      policy_->Release({&id, 1}, {});
    } else {
      unpublished_.PushBack(blocks_, id);
    }
  }
}

// Prefetches the index slots and the metadata of later blocks, so that the memory accesses of
// several blocks overlap.
BlockPool::Chain BlockPool::FindChain(std::span<const BlockHash> hashes,
                                      std::span<BlockId> found) const {
  const size_t count = hashes.size();
  for (size_t i = 0; i < std::min(kSlotsAhead, count); ++i) PrefetchSlot(hashes[i]);
  for (size_t i = 0; i < std::min(kBlocksAhead, count); ++i) found[i] = Guess(hashes[i]);
  size_t i = 0;
  int32_t num_idle = 0;
  for (; i < count; ++i) {
    BlockId id = found[i];
    if (id == kNoBlock || !SameDigest(At(id).hash, hashes[i])) [[unlikely]] {
      id = found[i] = Find(hashes[i]);
      if (id == kNoBlock) break;
    }
    num_idle += At(id).num_users == 0;
    if (i + kSlotsAhead < count) PrefetchSlot(hashes[i + kSlotsAhead]);
    if (i + kBlocksAhead < count) found[i + kBlocksAhead] = Guess(hashes[i + kBlocksAhead]);
  }
  return {.blocks = found.first(i), .num_idle = num_idle};
}

void BlockPool::Take(std::span<BlockId> taken) {
  INCIPIT_CHECK(taken.size() <= static_cast<size_t>(num_free_));
  num_free_ -= static_cast<int32_t>(taken.size());
  while (!taken.empty()) {
    // Initialized only here, because most decode steps of a sequence take no block.
    std::array<Victim, kVictimsAhead> victims;
    size_t num_victims = 0;
    for (BlockId& id : taken.first(std::min(taken.size(), victims.size()))) {
      id = unpublished_.front;
      if (id != kNoBlock) {
        unpublished_.Remove(blocks_, id);
      } else {
        Victim& victim = victims[num_victims];
        num_victims += BeginEviction(victim);
        id = victim.id;
      }
      At(id).num_users = 1;
    }
    for (size_t i = 0; i < num_victims; ++i) FinishEviction(victims[i]);
    taken = taken.subspan(std::min(taken.size(), victims.size()));
  }
}

BlockId BlockPool::Take() {
  BlockId taken = kNoBlock;
  Take({&taken, 1});
  return taken;
}

// Chooses the block to evict and removes the block from its lists. Returns true if the block is in
// the prefix cache. The caller must then call FinishEviction() later. Returns false if no lookup
// can find the block.
bool BlockPool::BeginEviction(Victim& victim) {
  victim.id = ChooseVictim(victim.reason);
  if (!At(victim.id).published) return false;
  Doom(victim);
  return true;
}

// Removes block victim.id from the list of blocks with the same key and from the tree of cached
// prefixes. Prefetches memory for FinishEviction(). REQUIRES: lookups can find the block, and the
// block is in no list of free blocks.
void BlockPool::Doom(Victim& victim) {
  const uint64_t prefix = At(victim.id).hash.prefix();
  index_.Prefetch(prefix);
  evicted_keys_.Prefetch(prefix);
  __builtin_prefetch(&TimesOf(victim.id));
  --num_cached_free_;
  victim.last_of_key = Detach(victim.id);
}

void BlockPool::FinishEviction(const Victim& victim) {
  ++evictions_.by_reason[static_cast<size_t>(victim.reason)];
  evictions_.age.Add(now_ms_ - TimesOf(victim.id).published);
  evictions_.idle.Add(now_ms_ - TimesOf(victim.id).freed);
  if (!victim.last_of_key) return;
  evicted_keys_.Add(At(victim.id).hash.prefix(), now_ms_);
  EraseKey(victim.id);
}

// Returns the block to evict next, and removes this block from its list of free blocks. A block
// with a retention hint is evicted only after the cached blocks that follow it in a sequence.
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
  BlockId id = kNoBlock;
  const bool has_below = retained_.num_retained() > 0 && !policy_->is_next_unpublished();
  if (has_below) id = front(&RetainedBlocks::FrontBelow);
  reason = id != kNoBlock ? EvictionReason::kPriority : EvictionReason::kCapacity;
  if (id == kNoBlock) id = policy_->Evict();
  if (id == kNoBlock) id = front(&RetainedBlocks::FrontAbove);
  // The search with FrontAbove() may have added blocks to the eviction order of the policy. So call
  // Evict() a second time.
  if (id == kNoBlock) id = policy_->Evict();
  INCIPIT_CHECK(id != kNoBlock);
  return id;
}

void BlockPool::Use(std::span<const BlockId> found, SequenceUse& use) {
  policy_->Use(found, use);
  int32_t num_idle = 0;
  for (const BlockId id : found) {
    Block& block = At(id);
    if (block.retained) retained_.Take(id);
    INCIPIT_CHECK(block.num_users < kBlockUsersMax);
    num_idle += block.num_users++ == 0;
  }
  num_free_ -= num_idle;
  num_cached_free_ -= num_idle;
}

void BlockPool::AddUser(BlockId id) {
  Block& block = At(id);
  INCIPIT_CHECK(block.num_users > 0 && block.num_users < kBlockUsersMax);
  ++block.num_users;
}

void BlockPool::Release(std::span<const BlockId> blocks, const SequenceUse& use) {
  // Release the last blocks of the sequence first, in calls of at most freed_.size() blocks.
  while (blocks.size() > freed_.size()) {
    Release(blocks.last(freed_.size()), use);
    blocks = blocks.first(blocks.size() - freed_.size());
  }
  // Index in freed_. The elements from `first` on are the blocks that have lost their last user, in
  // the order of their tokens. The loop visits the last block first, so `first` decreases.
  size_t first = blocks.size();
  int32_t num_plain = 0;
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    Block& block = At(*it);
    INCIPIT_CHECK(block.num_users > 0);
    if (--block.num_users > 0) continue;
    // True if lookups can find the block, no other block has its key, and the block has no
    // retention hint.
    const bool is_plain = block.next_same == *it && !block.has_hint;
    if (is_plain) {
      ++num_plain;
      TimesOf(*it).freed = now_ms_;
    }
    if (is_plain || BecomeFree(*it)) freed_[--first] = *it;
  }
  num_free_ += num_plain;
  num_cached_free_ += num_plain;
  const auto freed = std::span(freed_).subspan(first, blocks.size() - first);
  if (!freed.empty()) policy_->Release(freed, use);
}

// Makes block `id` free. Returns true if the caller must add `id` to the eviction order.
bool BlockPool::BecomeFree(BlockId id) {
  Block& block = At(id);
  ++num_free_;
  const bool has_duplicate = block.published && block.next_same != id;
  // Remove a block without users from the cache if another computed block has the same key. With
  // the policy `lru`, the block stays in the cache.
  if (!is_lru_ && has_duplicate && !(block.canonical && At(block.next_same).pending)) Unpublish(id);
  if (!block.published) {
    if (!is_lru_) unpublished_.PushBack(blocks_, id);
    return is_lru_;
  }
  ++num_cached_free_;
  TimesOf(id).freed = now_ms_;
  return !block.has_hint || !retained_.Put(id);
}

// Makes block `id` findable by the hash `hash`, before the keys and values of its tokens are
// computed. Returns the block that lookups return for `hash`.
[[gnu::always_inline]] inline BlockId BlockPool::PublishOne(BlockId id, const BlockHash& hash,
                                                            BlockId parent, size_t chain_slot) {
  Block& block = At(id);
  INCIPIT_CHECK(block.num_users > 0 && !block.published);
  const BlockId first =
      index_.Find(hash.prefix(), [&](BlockId other) { return SameDigest(At(other).hash, hash); });
  block.hash = hash;
  block.published = block.pending = true;
  block.starts_chain = parent == kNoBlock;
  block.canonical = first == kNoBlock;
  block.next_same = id;
  if (block.canonical) {
    index_.Insert(hash.prefix(), id);
    CountChange(hash);
    LinkChild(id, parent, chain_slot);
    return id;
  }
  BlockId last = first;
  while (At(last).next_same != first) last = At(last).next_same;
  At(last).next_same = id;
  block.next_same = first;
  const bool in_order = At(first).num_users == 0 && !At(first).retained;
  if (in_order) policy_->OnChildless(first);
  return first;
}

void BlockPool::PublishPending(std::span<const BlockId> ids, std::span<const BlockHash> hashes,
                               const ChainEnd& end) {
  INCIPIT_CHECK(ids.size() == hashes.size());
  const size_t chain_slot = ChainSlot(end.chain);
  BlockId parent = end.before;
  if (parent != kNoBlock && !At(parent).canonical) parent = Find(At(parent).hash);
  for (size_t i = 0; i < std::min(kKeysAhead, hashes.size()); ++i) PrefetchSlot(hashes[i]);
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (i + kKeysAhead < hashes.size()) PrefetchSlot(hashes[i + kKeysAhead]);
    At(ids[i]).is_plain = i < end.num_plain;
    parent = PublishOne(ids[i], hashes[i], parent, chain_slot);
  }
}

// Marks the blocks `ids` as complete. Adds to `regret_` the number of computed blocks whose keys
// were evicted recently. Stops adding after kStrangeKeys consecutive blocks without a recent
// eviction.
BlockPool::Confirmed BlockPool::Confirm(std::span<const BlockId> ids, const SequenceTokens& tokens,
                                        size_t num_loaded, SequenceUse& use) {
  if (ids.empty()) return {};
  const size_t block_size = tokens.size() / ids.size();
  Confirmed confirmed;
  size_t num_fetched = 0, num_strange = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t num_wanted = std::min(i + kStrangeKeys - num_strange, ids.size());
    for (; num_fetched < num_wanted; ++num_fetched) {
      evicted_keys_.Prefetch(At(ids[num_fetched]).hash.prefix());
    }
    Block& block = At(ids[i]);
    if (!block.pending) continue;  // lookups can no longer find the block
    INCIPIT_CHECK(block.published);
    const bool is_loaded = i < num_loaded;
    block.pending = false;
    ++(is_loaded ? confirmed.num_loaded : confirmed.num_computed);
    TimesOf(ids[i]).published = now_ms_;
    if (!block.canonical) {
      const BlockId first = Find(block.hash);
      if (!is_lru_ && At(first).num_users == 0) Unfind(first);
      continue;
    }
    if (BecomeStored(ids[i])) {
      const BlockHash* parent = block.starts_chain ? nullptr : &At(block.parent).hash;
      event_log_.AddStored(block.hash, parent, tokens.From(i * block_size).first(block_size));
    }
    if (num_strange < kStrangeKeys) {
      const bool is_known = evicted_keys_.Take(block.hash.prefix());
      regret_ += is_known && !is_loaded;
      num_strange = is_known ? 0 : num_strange + 1;
    }
    policy_->Add(ids[i], is_loaded ? BlockOrigin::kLoaded : BlockOrigin::kComputed, use);
  }
  return confirmed;
}

void BlockPool::Withdraw(BlockId id) {
  const Block& block = At(id);
  INCIPIT_CHECK(block.published && block.pending);
  // Other cached blocks may follow block `id` in a sequence. Make these blocks unfindable too,
  // unless another block has the key of `id`.
  while (block.next_same == id && block.has_children()) UnpublishTree(At(block.first_child).hash);
  Unpublish(id);
}

// Evicts the next block in the order of Take(), and returns the block.
BlockId BlockPool::EvictOne() {
  Victim victim;
  if (BeginEviction(victim)) FinishEviction(victim);
  unpublished_.PushBack(blocks_, victim.id);
  return victim.id;
}

void BlockPool::EvictTo(int32_t num_cached_max) {
  while (num_cached_free_ > num_cached_max) EvictOne();
}

std::vector<BlockId> BlockPool::EvictAll() {
  std::vector<BlockId> order;
  order.reserve(static_cast<size_t>(num_cached_free_));
  while (num_cached_free_ > 0) order.push_back(EvictOne());
  return order;
}

void BlockPool::Advance(Time now) {
  if (!std::exchange(started_, true)) start_ = now;
  now_ = now;
  policy_->OnTime(now);
  now_ms_ = static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now - start_).count());
  while (retained_.AnyDue(now)) {
    const RetainedBlocks::Due due = retained_.TakeDue(now);
    if (due.block == kNoBlock) continue;
    if (!due.expired || At(due.block).has_children()) {
      policy_->Release({&due.block, 1}, {});
      continue;
    }
    Victim victim = {.id = due.block, .reason = EvictionReason::kTimeToLive};
    Doom(victim);
    FinishEviction(victim);
    if (is_lru_) {
      policy_->Release({&due.block, 1}, {});
    } else {
      unpublished_.PushBack(blocks_, due.block);
    }
  }
}

EvictionStats BlockPool::TakeEvictionStats() { return std::exchange(evictions_, {}); }

int64_t BlockPool::TakeRegret() { return std::exchange(regret_, 0); }

size_t BlockPool::num_bytes() const {
  return blocks_.capacity() * sizeof(Block) + index_.num_bytes() +
         chains_.capacity() * sizeof(BlockId) + times_.capacity() * sizeof(Times) +
         evicted_keys_.num_bytes() + retained_.num_bytes() + policy_->num_bytes();
}

}  // namespace incipit
