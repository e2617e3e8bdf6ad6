// Every block's metadata, who is free, and which can be found. Knows nothing of sequences.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/table.h"
#include "base/types.h"
#include "kvcache/keys/block_hash.h"
#include "kvcache/kv_events.h"
#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/eviction_stats.h"
#include "kvcache/pool/block.h"
#include "kvcache/pool/block_index.h"
#include "kvcache/pool/evicted_keys.h"
#include "kvcache/retention.h"
#include "kvcache/sequence_tokens.h"

namespace incipit {

struct BlockPoolOptions {
  int32_t num_blocks = 0;
  // Only the first half of a BlockHash is the block's own digest, by which it is found.
  bool short_digests = false;
  EvictionPolicyKind policy = EvictionPolicyKind::kLru;
  int32_t policy_capacity = 0;  // blocks; 0: num_blocks
  int32_t block_size = 16;      // tokens, which the policy goes by
  RetentionLimits retention{};
};

// A block has users, or it is free and stands in exactly one of three places: among those that
// nobody can find (`lru` keeps these in its own order), among the retained, or in the policy's
// order. They are taken in this sequence, retained blocks of a low priority before the policy's
// order and the others after it.
//
// Blocks that carry the same key form a ring, of which one is canonical. Under `lru` that is the
// first published, and when it goes the next takes its place. Under the other policies a free block
// that is not canonical, or whose duplicate is in use, is no longer published, since the other one
// is as good. So there every child of a block in the policy's order is free as well, and whoever is
// asked for as many blocks as are free has them.
//
// Times are of the caller's clock (Advance). After construction nothing allocates but FreeOrder and
// CheckInvariants.
class BlockPool {
 public:
  explicit BlockPool(const BlockPoolOptions& options);

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t num_free() const { return num_free_; }
  int32_t num_cached_free() const { return num_cached_free_; }
  int32_t num_keys() const { return index_.size(); }
  int32_t num_retained() const { return retained_.num_retained(); }

  // The canonical block of the digest of `hash`, or kNoBlock.
  BlockId Find(const BlockHash& hash) const;
  struct Chain {
    std::span<const BlockId> blocks;
    int32_t num_idle = 0;  // of them, without a user
  };
  // The canonical blocks of `hashes`, up to the first that has none, in `found`, which
  // has room for all.
  Chain FindChain(std::span<const BlockHash> hashes, std::span<BlockId> found) const;

  // Takes blocks for one user each; what they held can no longer be found.
  // REQUIRES: as many are free.
  void Take(std::span<BlockId> taken);
  BlockId Take();
  // A sequence begins with the published blocks `found`, which may be none, the first of its chain
  // first.
  void Use(std::span<const BlockId> found, SequenceUse& use);
  // One more user of a block that has one.
  void AddUser(BlockId id);
  // One user fewer of each of a sequence's `blocks`, from the last to the first.
  void Release(std::span<const BlockId> blocks, const SequenceUse& use);

  // Where a sequence's next blocks come in the tree of chains.
  struct ChainEnd {
    BlockId before = kNoBlock;  // the block before them; published
    uint64_t chain = 0;         // where there is none: what chains with a common start agree on
  };
  // `ids`, which follow each other, are found by `hashes` from now on; until Confirm their contents
  // are not there yet. REQUIRES: they are in use and not published.
  void PublishPending(std::span<const BlockId> ids, std::span<const BlockHash> hashes,
                      const ChainEnd& end);
  // The contents of those of a sequence's blocks `ids` that are pending are there; `tokens` are all
  // blocks'. Returns how many were.
  int32_t Confirm(std::span<const BlockId> ids, const SequenceTokens& tokens, SequenceUse& use);
  // Takes back a pending block. REQUIRES: so were those that descend from it.
  void Withdraw(BlockId id);
  // No block of this key nor any that descends from one is found any more, whoever uses it.
  void UnpublishTree(const BlockHash& hash);
  // REQUIRES: every block is free.
  void UnpublishAll();
  // Gives up free blocks that are published until at most `num_cached_max` are.
  void EvictTo(int32_t num_cached_max);

  // It is `now`: gives up what has outlived its time.
  void Advance(Time now);
  // What becomes of these blocks, the first of a chain first, when they are free.
  void Retain(std::span<const BlockId> blocks, const Retention& hint, uint64_t tenant) {
    retained_.Assign(blocks, hint, tenant, now_);
  }

  bool is_published(BlockId id) const { return At(id).published; }
  bool is_pending(BlockId id) const { return At(id).pending; }
  bool is_retained(BlockId id) const { return At(id).retained; }
  bool starts_chain(BlockId id) const { return At(id).starts_chain; }
  int32_t num_users(BlockId id) const { return static_cast<int32_t>(At(id).num_users); }
  const BlockHash& hash(BlockId id) const { return At(id).hash; }
  // The blocks that follow `before`, or start chains with this tag: first and next, newest first.
  BlockId parent(BlockId id) const { return At(id).parent; }  // of a canonical block
  BlockId first_child(BlockId before) const { return At(before).first_child; }
  BlockId first_of_chains(uint64_t chain) const { return chains_[ChainSlot(chain)]; }
  BlockId next_sibling(BlockId id) const { return At(id).next_sibling; }
  // The canonical blocks of keys that events reported as stored, each after its parent. Allocates.
  std::vector<BlockId> StoredOrder() const;

  KvEventLog& event_log() { return event_log_; }
  const EvictedKeys& evicted_keys() const { return evicted_keys_; }
  EvictionStats TakeEvictionStats();  // since the last call
  int64_t TakeRegret();               // published again soon after they were evicted; likewise
  // Since the first Advance; they wrap after 49 days.
  uint32_t now_ms() const { return now_ms_; }
  size_t num_bytes() const;  // of memory, whole

  // The free blocks in the order in which they would be taken. Only with `lru`. Allocates.
  std::vector<BlockId> FreeOrder() const;
  // Aborts if anything above is not so. O(blocks); allocates.
  void CheckInvariants() const;

 private:
  // How many victims are chosen before their keys are erased.
  static constexpr size_t kVictimsAhead = 32;
  // Blocks ahead of the one looked up that its slot in the index, and its metadata, are fetched.
  static constexpr size_t kSlotsAhead = 8, kBlocksAhead = 4;
  // Blocks ahead of the one being published that its slot in the index is fetched.
  static constexpr size_t kKeysAhead = 12;
  // After so many keys of a chain in a row that were not evicted lately none of it is looked for.
  static constexpr size_t kStrangeKeys = 8;

  struct Times {  // milliseconds since the start; they wrap after 49 days
    uint32_t published = 0, freed = 0;
  };

  Block& At(BlockId id) { return blocks_[static_cast<size_t>(id)]; }
  const Block& At(BlockId id) const { return blocks_[static_cast<size_t>(id)]; }
  Times& TimesOf(BlockId id) { return times_[static_cast<size_t>(id)]; }
  size_t ChainSlot(uint64_t chain) const {
    return static_cast<size_t>((chain >> 32) * chains_.size() >> 32);
  }
  bool SameDigest(const BlockHash& a, const BlockHash& b) const {
    const auto differ = [&](size_t word) {
      uint64_t x = 0, y = 0;
      std::memcpy(&x, &a.bytes[word * sizeof(x)], sizeof(x));
      std::memcpy(&y, &b.bytes[word * sizeof(y)], sizeof(y));
      return x ^ y;
    };
    return (differ(0) | differ(1)) == 0 && (short_digests_ || (differ(2) | differ(3)) == 0);
  }

  // block_pool.cpp
  [[gnu::always_inline]] void PrefetchSlot(const BlockHash& hash) const {
    index_.Prefetch(hash.prefix());
  }
  // What Find will most likely return; its metadata is on its way. kNoBlock says nothing.
  [[gnu::always_inline]] BlockId Guess(const BlockHash& hash) const {
    const BlockId guess = index_.Guess(hash.prefix());
    if (guess != kNoBlock) __builtin_prefetch(&At(guess), 1);
    return guess;
  }
  bool BecomeFree(BlockId id);
  void PutInOrder(std::span<const BlockId> freed, const SequenceUse& use);
  struct Victim {
    BlockId id = kNoBlock;
    EvictionReason reason = EvictionReason::kCapacity;
    bool last_of_key = false;
  };
  BlockId ChooseVictim(EvictionReason& reason);
  BlockId PublishOne(BlockId id, const BlockHash& hash, BlockId parent, size_t chain_slot);
  bool BecomeStored(BlockId id);
  [[nodiscard]] bool BeginEviction(Victim& victim);
  void Doom(Victim& victim);
  void FinishEviction(const Victim& victim);

  // block_links.cpp
  [[nodiscard]] bool Detach(BlockId id);
  void Unpublish(BlockId id);
  void EraseKey(BlockId id);
  void Unfind(BlockId id);
  void LinkChild(BlockId id, BlockId parent, size_t chain_slot);
  void UnlinkChild(BlockId id);
  void HandOver(BlockId id, BlockId to);
  void LeaveRing(BlockId id);
  void CheckLinks() const;

  Table<Block> blocks_;
  BlockIndex index_;
  std::vector<BlockId> chains_;  // the newest block that starts a chain, by chain tag
  Table<Times> times_;
  EvictedKeys evicted_keys_;
  RetainedBlocks retained_;
  std::unique_ptr<EvictionPolicy> policy_;
  KvEventLog event_log_;
  BlockList unpublished_;  // free blocks that nobody can find, unless the policy orders them
  std::array<BlockId, 1024> freed_;  // scratch of Release
  bool short_digests_;
  bool is_lru_;
  int32_t num_free_ = 0;
  int32_t num_cached_free_ = 0;
  Time start_{}, now_{};
  uint32_t now_ms_ = 0;
  bool started_ = false;  // a time was given
  EvictionStats evictions_;
  int64_t regret_ = 0;
};

}  // namespace incipit
