// The metadata of all blocks: which blocks are free, and which blocks lookups can find.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
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
  // True if block keys have only 16 bytes, the first half of BlockHash. Find() then compares only
  // this half.
  bool short_digests = false;
  EvictionPolicyKind policy = EvictionPolicyKind::kLru;
  // Number of cached blocks for which the eviction policy allocates its tables; 0: num_blocks.
  int32_t policy_capacity = 0;
  int32_t block_size = 16;  // number of tokens in one block, for the eviction policy
  RetentionLimits retention{};
};

// Manages which blocks are free (without users) and which blocks lookups can find.
//
// Take() allocates free blocks in this order:
// - blocks that lookups cannot find;
// - cached blocks whose retention hint lowers their priority;
// - cached blocks without a retention hint, in the order of the eviction policy;
// - cached blocks whose retention hint raises their priority.
//
// After construction, only FreeOrder(), StoredOrder(), CachedOrder(), EvictAll() and
// CheckInvariants() allocate memory.
class BlockPool {
 public:
  explicit BlockPool(const BlockPoolOptions& options);

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t num_free() const { return num_free_; }
  int32_t num_cached_free() const { return num_cached_free_; }
  int32_t num_keys() const { return index_.size(); }
  int32_t num_retained() const { return retained_.num_retained(); }

  // Returns the oldest cached block with the key `hash`, or kNoBlock.
  BlockId Find(const BlockHash& hash) const;
  struct Chain {
    std::span<const BlockId> blocks;
    int32_t num_idle = 0;  // number of blocks among `blocks` that have no users
  };
  // Looks up the keys `hashes` in order, until a key is not found. Writes the found blocks to
  // `found`, and returns a view of these blocks. REQUIRES: `found` is at least as long as `hashes`.
  Chain FindChain(std::span<const BlockHash> hashes, std::span<BlockId> found) const;

  // Allocates taken.size() free blocks, gives each block one user, and writes the block ids to
  // `taken`. The old contents of these blocks become unfindable. REQUIRES: at least taken.size()
  // blocks are free.
  void Take(std::span<BlockId> taken);
  BlockId Take();
  // Adds a user to each of the cached blocks `found`, and reports the use to the eviction policy.
  // The blocks of a sequence must be in the order of their tokens.
  void Use(std::span<const BlockId> found, SequenceUse& use);
  // Adds a user to block `id`. REQUIRES: `id` already has a user.
  void AddUser(BlockId id);
  // Removes one user from each of `blocks`, from the last block to the first. The blocks belong to
  // one sequence.
  void Release(std::span<const BlockId> blocks, const SequenceUse& use);

  // Prefetches the memory that PublishPending() and Confirm() need for block `id` with the key
  // `hash`. Without always_inline, gcc would remove all calls of this function.
  [[gnu::always_inline]] void Prefetch(BlockId id, const BlockHash& hash) const {
    __builtin_prefetch(&At(id), 1);
    index_.Prefetch(hash.prefix());
    evicted_keys_.Prefetch(hash.prefix());
  }

  // The cached prefix of a sequence, after which PublishPending() adds blocks.
  struct ChainEnd {
    // Last block of the cached prefix; kNoBlock: the prefix is empty.
    BlockId before = kNoBlock;
    // Hash of the tenant, salt, adapter and first token of the sequence. Used only if `before` is
    // kNoBlock.
    uint64_t chain = 0;
    // Number of leading blocks, among the added blocks, whose keys depend only on the hash seed and
    // on tokens.
    size_t num_plain = 0;
  };
  // Makes the consecutive blocks `ids` of a sequence findable by the hashes `hashes`. The contents
  // of the blocks (keys and values of tokens) are incomplete until Confirm() is called. REQUIRES:
  // the blocks have users, and lookups cannot find the blocks yet.
  void PublishPending(std::span<const BlockId> ids, std::span<const BlockHash> hashes,
                      const ChainEnd& end);
  // Numbers of blocks that have become complete, by the origin of their keys and values.
  struct Confirmed {
    int32_t num_computed = 0, num_loaded = 0;
  };
  // Records that the keys and values of the consecutive blocks `ids` of a sequence are complete.
  // The first `num_loaded` blocks were loaded from a tier, and the other blocks were computed.
  // `tokens` are the tokens of these blocks.
  Confirmed Confirm(std::span<const BlockId> ids, const SequenceTokens& tokens, size_t num_loaded,
                    SequenceUse& use);
  // Undoes PublishPending() for block `id`, for example because the computation of the block
  // failed. REQUIRES: Withdraw() was already called for the incomplete blocks that follow `id` in a
  // sequence.
  void Withdraw(BlockId id);
  // Makes all cached blocks with the key `hash` unfindable for lookups, and also all cached blocks
  // whose prefix contains a block with this key.
  void UnpublishTree(const BlockHash& hash);
  // Makes all blocks unfindable for lookups. REQUIRES: every block is free.
  void UnpublishAll();
  // Evicts cached blocks without users until at most `num_cached_max` such blocks are left.
  void EvictTo(int32_t num_cached_max);

  // Evicts all cached blocks without users. Returns the blocks in the order of their eviction.
  // Allocates memory.
  std::vector<BlockId> EvictAll();

  // Sets the time of the pool to `now`, and evicts blocks whose time to live has passed.
  void Advance(Time now);
  // Sets the retention hint `hint` (a client's request to keep blocks) on `blocks`. The hint takes
  // effect when no request uses the blocks. REQUIRES: `blocks` have the order of the sequence.
  void Retain(std::span<const BlockId> blocks, const Retention& hint, uint64_t tenant) {
    retained_.Assign(blocks, hint, tenant, now_);
  }

  bool is_published(BlockId id) const { return At(id).published; }
  // Returns the next published block with the key of block `id`, in a circular list. Returns `id`
  // if there is no other block. REQUIRES: block `id` is published.
  BlockId next_same(BlockId id) const { return At(id).next_same; }
  bool is_pending(BlockId id) const { return At(id).pending; }
  bool is_retained(BlockId id) const { return At(id).retained; }
  bool starts_chain(BlockId id) const { return At(id).starts_chain; }
  int32_t num_users(BlockId id) const { return static_cast<int32_t>(At(id).num_users); }
  const BlockHash& hash(BlockId id) const { return At(id).hash; }
  // Returns the block before `id` in its sequence, or kNoBlock if `id` is the first block.
  // REQUIRES: `id` is canonical (the block that lookups return for its key).
  BlockId parent(BlockId id) const { return At(id).parent; }
  // Returns the newest cached block that continues block `before`, or kNoBlock.
  BlockId first_child(BlockId before) const { return At(before).first_child; }
  // Returns the newest block in one slot of `chains_`, a hash table of the blocks that begin a
  // sequence. `chain`, a hash of the tenant, salt, adapter and first token, determines the slot.
  // Returns kNoBlock if the slot is empty.
  BlockId first_of_chains(uint64_t chain) const { return chains_[ChainSlot(chain)]; }
  // Returns the next older block that has the same previous block as `id`, or kNoBlock.
  BlockId next_sibling(BlockId id) const { return At(id).next_sibling; }

  // Starts a log of cache events (blocks that become findable or unfindable). If the log was
  // already started, removes all events and starts the log again.
  void Listen(const KvEventLogOptions& options);
  void RestartEvents();
  // Calls `report` for cached blocks that the log of cache events has not reported yet, each block
  // after the previous block of its sequence. Visits at most `visits_max` blocks, and continues at
  // the next call. Returns true if all blocks have been visited.
  bool SweepCached(size_t visits_max, absl::FunctionRef<void(BlockId)> report);
  // Returns the cached blocks, each block after the previous block of its sequence. Leaves out the
  // blocks that KvEventLogOptions::scope excludes from the log of cache events. Allocates memory.
  std::vector<BlockId> StoredOrder() const;
  // Returns the computed blocks that lookups can return, each block after the previous block of its
  // sequence. Allocates memory.
  std::vector<BlockId> CachedOrder() const;

  // If `counts` is true, starts to count changes of the cache for num_changes(). If `counts` is
  // false, stops. Each start increases the results of num_changes() for all block keys.
  void CountChanges(bool counts) {
    num_starts_ += counts && !counts_changes_;
    counts_changes_ = counts;
  }
  // Returns a number that changes when the block key `hash` becomes findable or unfindable. The
  // number may also change because of other keys. REQUIRES: counting was started by
  // CountChanges(true).
  uint32_t num_changes(const BlockHash& hash) const {
    return changes_[ChangeSlot(hash)] + num_starts_;
  }

  KvEventLog& event_log() { return event_log_; }
  const EvictedKeys& evicted_keys() const { return evicted_keys_; }
  // Returns the statistics of all evictions since the last call of TakeEvictionStats().
  EvictionStats TakeEvictionStats();
  // Returns the number of blocks that were computed again soon after their eviction, since the last
  // call of TakeRegret().
  int64_t TakeRegret();
  // Returns the time since the first call of Advance(), in milliseconds. The value wraps after 49
  // days.
  uint32_t now_ms() const { return now_ms_; }
  size_t num_bytes() const;  // memory that the pool has allocated, in bytes

  // Returns the free blocks that no retention hint keeps, in the order in which Take() allocates
  // them. Allocates memory. REQUIRES: the policy is `lru`.
  std::vector<BlockId> FreeOrder() const;
  // Aborts the process if the data structures of the pool are inconsistent. The cost is O(number of
  // blocks), and the call allocates memory.
  void CheckInvariants() const;

 private:
  // Maximum number of blocks that Take() evicts together.
  static constexpr size_t kVictimsAhead = 32;
  // FindChain() prefetches the index slots of the next kSlotsAhead blocks, and the metadata of the
  // next kBlocksAhead blocks.
  static constexpr size_t kSlotsAhead = 8, kBlocksAhead = 4;
  // PublishPending() prefetches the index slots of the next kKeysAhead blocks.
  static constexpr size_t kKeysAhead = 12;
  // Number of elements of `changes_`. An element counts how often a block key became findable or
  // unfindable. Several block keys share an element.
  static constexpr size_t kChangeSlots = 4096;
  // Confirm() searches for block keys among the recently evicted keys. The search ends after this
  // number of consecutive keys that were not found.
  static constexpr size_t kStrangeKeys = 8;

  // The position at which SweepCached() continues to visit the cached blocks. The blocks form
  // trees, because a block can have several next blocks. The visits are in depth-first order.
  struct Sweep {
    size_t slot = 0;  // index in `chains_`, the hash table of blocks that begin a sequence
    // block to visit next; kNoBlock: begin with the first block of slot `slot`
    BlockId next = kNoBlock;
    // True if SweepCached() has already visited `next` and all cached blocks that follow `next` in
    // a sequence.
    bool is_left = false;
  };
  // Times at which lookups could first find a block (`published`), and at which the block lost its
  // last user (`freed`). Unit: milliseconds since the first call of Advance(). The values wrap
  // after 49 days.
  struct Times {
    uint32_t published = 0, freed = 0;
  };

  Block& At(BlockId id) { return blocks_[static_cast<size_t>(id)]; }
  const Block& At(BlockId id) const { return blocks_[static_cast<size_t>(id)]; }
  Times& TimesOf(BlockId id) { return times_[static_cast<size_t>(id)]; }
  size_t ChainSlot(uint64_t chain) const {
    return static_cast<size_t>((chain >> 32) * chains_.size() >> 32);
  }
  static size_t ChangeSlot(const BlockHash& hash) { return hash.prefix() % kChangeSlots; }
  void CountChange(const BlockHash& hash) {
    if (counts_changes_) ++changes_[ChangeSlot(hash)];
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

  // The functions from PrefetchSlot to FinishEviction are used in block_pool.cpp only.
  [[gnu::always_inline]] void PrefetchSlot(const BlockHash& hash) const {
    index_.Prefetch(hash.prefix());
  }
  // Returns the block that Find() probably returns, and prefetches its metadata. Find() may find a
  // block even if Guess() returns kNoBlock.
  [[gnu::always_inline]] BlockId Guess(const BlockHash& hash) const {
    const BlockId guess = index_.Guess(hash.prefix());
    if (guess != kNoBlock) __builtin_prefetch(&At(guess), 1);
    return guess;
  }
  bool BecomeFree(BlockId id);
  struct Victim {
    BlockId id = kNoBlock;
    EvictionReason reason = EvictionReason::kCapacity;
    bool last_of_key = false;
  };
  BlockId ChooseVictim(EvictionReason& reason);
  BlockId PublishOne(BlockId id, const BlockHash& hash, BlockId parent, size_t chain_slot);
  // Returns whether the log of cache events has reported that `block` is cached.
  bool is_emitted(const Block& block) const {
    return event_log_.is_open() && block.emitted_in == log_number_;
  }
  bool is_in_scope(const Block& block) const {
    return block.is_plain || scope_ == KvEventScope::kAll;
  }
  // Returns true if the caller must add the event kStored (block `id` was cached) to the log of
  // cache events, and marks block `id` as reported. Returns false if no log is open, or if the log
  // has already reported block `id`. Also returns false if KvEventScope excludes block `id`, or if
  // the log has not reported the block before `id` in its sequence.
  bool BecomeStored(BlockId id) {
    Block& block = At(id);
    if (!event_log_.is_open() || is_emitted(block) || !is_in_scope(block)) return false;
    if (!block.starts_chain && !is_emitted(At(block.parent))) return false;
    block.emitted_in = log_number_;
    return true;
  }
  void LeaveSubtree(BlockId id);
  bool HasComputedChild(const Block& block) const;
  [[nodiscard]] bool BeginEviction(Victim& victim);
  void Doom(Victim& victim);
  void FinishEviction(const Victim& victim);
  BlockId EvictOne();

  // The functions from Detach to CheckLinks are defined in block_links.cpp.
  [[nodiscard]] bool Detach(BlockId id);
  void Unpublish(BlockId id);
  void EraseKey(BlockId id);
  void Unfind(BlockId id);
  void LinkChild(BlockId id, BlockId parent, size_t chain_slot);
  void UnlinkChild(BlockId id);
  // Returns the blocks of all sequences, each block after the previous block of its sequence.
  // Leaves out the blocks for which `is_listed` returns false, and all blocks that follow them.
  template <typename F>
  std::vector<BlockId> ParentsFirst(const F& is_listed) const;
  void HandOver(BlockId id, BlockId to);
  void LeaveRing(BlockId id);
  void CheckLinks() const;

  Table<Block> blocks_;
  BlockIndex index_;
  // Hash table of the blocks that begin a sequence. The hash is that of the tenant, salt, adapter
  // and first token (ChainEnd::chain). Element s is the newest block in slot s.
  std::vector<BlockId> chains_;
  Table<Times> times_;
  EvictedKeys evicted_keys_;
  RetainedBlocks retained_;
  std::unique_ptr<EvictionPolicy> policy_;
  KvEventLog event_log_;
  KvEventScope scope_ = KvEventScope::kDefaultNamespace;
  // Number of the present log of cache events. A block that this log has reported has this number
  // in Block::emitted_in.
  uint8_t log_number_ = 0;
  Sweep sweep_;
  // Free blocks that lookups cannot find; always empty with the policy `lru`.
  BlockList unpublished_;
  // Working memory of Release(): the blocks that lost their last user.
  std::array<BlockId, 1024> freed_;
  std::array<uint32_t, kChangeSlots> changes_{};
  bool counts_changes_ = false;
  // A part of the result of num_changes() for every block key. An increment of num_starts_
  // therefore changes the results of num_changes() for all block keys.
  uint32_t num_starts_ = 0;
  bool short_digests_;
  bool is_lru_;
  int32_t num_free_ = 0;
  int32_t num_cached_free_ = 0;
  Time start_{}, now_{};
  uint32_t now_ms_ = 0;
  bool started_ = false;  // true if Advance() has been called
  EvictionStats evictions_;
  int64_t regret_ = 0;
};

}  // namespace incipit
