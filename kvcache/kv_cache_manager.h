// Decides which block of a paged KV cache holds which tokens, and lets sequences with a common
// prefix share blocks. Deals in block ids only: the bytes belong to the model runner.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/types.h"
#include "kvcache/keys/block_hash.h"
#include "kvcache/kv_events.h"
#include "kvcache/kv_layout.h"
#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/eviction_stats.h"
#include "kvcache/pool/block_pool.h"
#include "kvcache/retention.h"
#include "kvcache/sequence_tokens.h"

namespace incipit {

struct KvCacheOptions {
  int32_t num_blocks = 0;
  int32_t block_size = 16;  // tokens; a power of two, 1 to 256
  HashAlgorithm hash = HashAlgorithm::kSha256;
  std::string seed{};         // of the hash chains: equal seeds give equal keys in every process
  bool prefix_cache = true;   // off: blocks are neither found nor published
  bool copy_on_write = true;  // off: nothing is found inside a block
  EvictionPolicyKind policy = EvictionPolicyKind::kAdaptive;
  int32_t policy_capacity = 0;    // what the policy sizes its memory by, in blocks; 0: num_blocks
  int32_t policy_block_size = 0;  // tokens that it takes a block for; 0: block_size
  RetentionLimits retention{};
};

// Values that tests set to reach rare cases often; the product uses the defaults.
struct KvCacheSeams {
  int32_t digest_bits = kDigestBitsMax;  // see BlockHasher: few bits make keys collide
  // Fewer equal tokens than these are not worth a copy, unless the whole prompt is there; what most
  // prompts begin with is no more. 0: a quarter of a block, at least 2.
  int32_t copy_min_tokens = 0;
};

// INVALID_ARGUMENT, naming the field, its value and the bound.
absl::Status ValidateKvCacheOptions(const KvCacheOptions& options);

// Counters, in tokens where not said otherwise. A request counts once, when the first step that
// computes for it is committed; one that asked not to read the cache does not count.
struct KvCacheStats {
  int64_t queries = 0;            // requests
  int64_t query_tokens = 0;       // prompt tokens that were looked up
  int64_t hit_tokens = 0;         // of them, found
  int64_t copied_tokens = 0;      // of those, in a block that was copied
  int64_t self_query_tokens = 0;  // the same of sequences that come back after a preemption
  int64_t self_hit_tokens = 0;
  int64_t stored_blocks = 0;  // published
  int64_t regret_blocks = 0;  // of them, evicted not long before
  int64_t collisions = 0;     // keys held by other contents (never with sha256)
  EvictionStats evictions;

  KvCacheStats& operator+=(const KvCacheStats& other);
};

// One sequence's blocks, in order. Filled and emptied by KvCacheManager only, but for what the
// sequence starts with. `hashes` and `blocks` never grow beyond what was reserved for the
// sequence's longest length.
struct BlockTable {
  ChainRoot root;       // the start of the hash chain: see BlockHasher::Root
  uint64_t tenant = 0;  // whose share of retained blocks this counts against
  Retention retention;
  std::vector<BlockHash> hashes;  // of full blocks; the prompt's arrive already computed
  std::vector<BlockId> blocks;    // append-only while the sequence runs
  int32_t num_published = 0;      // leading blocks that were found or published, pending or not
  int32_t num_confirmed = 0;      // leading blocks of those that are not pending by this sequence
  int32_t num_committed = 0;      // leading blocks that committed steps have filled or begun
  bool collided = false;          // a key of it is held by other contents: it publishes no more
  SequenceUse use;
  // Must be done before the sequence's next step; its source is held until ReleaseCopySource.
  BlockCopy copy;
  std::optional<BlockHash> copied_from{};  // the key of the block that a partial match was in
};

struct ComputedBlocks {
  std::span<const BlockId> blocks;  // full blocks found, in order; valid until the next lookup
  BlockId copy_source = kNoBlock;   // its first `copy_tokens` tokens are the next ones
  int32_t copy_tokens = 0;
  int32_t num_tokens = 0;  // what all this holds
  int32_t num_idle = 0;    // of these blocks, without a user
};

// Where a lookup may look besides full blocks.
enum class PartialMatch : uint8_t { kNo, kAllowed };

enum class MissReason : uint8_t {
  kNone,            // all full blocks were found
  kUnseen,          // the first block not found was never cached, as far as is remembered
  kEvicted,         // it was, and made room for others
  kOtherNamespace,  // the same tenant has it under another salt or adapter
};

// Why a lookup found no more.
struct Miss {
  MissReason reason = MissReason::kNone;
  int32_t block = -1;            // the first full block not found
  int32_t differing_token = -1;  // the first token that differs from the nearest cached chain
  Duration evicted_ago{};        // for kEvicted
};

// What would happen if a sequence were admitted now.
struct AdmissionPreview {
  bool fits = false;
  int32_t cached_tokens = 0;   // found, those of a copied block included
  int32_t blocks_needed = 0;   // that leave the free ones
  int32_t blocks_evicted = 0;  // of them, cached ones that others might still have found
};

// Invariants (CheckInvariants):
//  (1) every block is either used (it has users) or free, once;
//  (2) the lengths of the live tables and the copy sources held add up to the numbers of users;
//  (3) every entry of the index leads to a block that carries its key, and every published block is
//      reached so;
//  (4) the parent of a published block is published, by some copy.
// Threading: one thread, the engine's. Fits, hasher and options read constants and are safe from
// any thread. After construction only CheckInvariants allocates memory.
class KvCacheManager {
 public:
  // REQUIRES: ValidateKvCacheOptions(options) is OK.
  explicit KvCacheManager(const KvCacheOptions& options, const KvCacheSeams& seams = {});

  // It is `now`, and will not be earlier again: what has outlived its time to live goes.
  void Advance(Time now) { pool_.Advance(now); }

  // The longest computed prefix of `tokens`, at most all but the last of them, which must be
  // computed to obtain logits. Changes nothing.
  ComputedBlocks GetComputedBlocks(const SequenceTokens& tokens, const BlockTable& table,
                                   PartialMatch partial = PartialMatch::kAllowed);

  // Why it is not longer. REQUIRES: the answer of GetComputedBlocks for the same arguments.
  Miss ExplainMiss(const SequenceTokens& tokens, const BlockTable& table,
                   const ComputedBlocks& computed) const;

  // How many blocks leave the free ones if `computed` is taken and room made for `num_tokens`.
  int32_t BlocksNeeded(const BlockTable& table, const ComputedBlocks& computed,
                       int32_t num_tokens) const;
  // Changes nothing.
  AdmissionPreview Preview(const BlockTable& table, const ComputedBlocks& computed,
                           int32_t num_tokens) const;

  // Takes `computed` (into an empty table) and room for the first `num_tokens` tokens of the
  // sequence. All or nothing: false leaves cache and table as they were. A copy that the step must
  // do first is left in table.copy.
  [[nodiscard]] bool AllocateSlots(BlockTable& table, const ComputedBlocks& computed,
                                   int32_t num_tokens);

  // Makes findable, as pending, the blocks that the step being planned fills up: `tokens` are all
  // that will be stored after it. Within a step every layer writes all keys and values before it
  // reads any, so sequences of the same step may share them.
  void Announce(BlockTable& table, const SequenceTokens& tokens);

  // Publishes the full blocks among the first `num_computed` tokens, which a committed step has
  // stored. The only way a block becomes findable for good.
  void CacheBlocks(BlockTable& table, const SequenceTokens& tokens, int32_t num_computed);

  // Gives back what was taken and announced since the last CacheBlocks or Fork: the step did
  // nothing. An older step that is still in flight keeps what it needs for the first
  // `num_tokens_in_flight` tokens; 0: there is none. Of several steps the last planned goes first,
  // and so do of several sequences of a step.
  void Rollback(BlockTable& table, int32_t num_tokens_in_flight = 0);

  // Makes the empty `child` hold the first `num_tokens` tokens of `parent`, sharing the full blocks
  // and leaving in child.copy how to fill a partial last one. False, with nothing changed, if there
  // is no block for that.
  [[nodiscard]] bool Fork(const BlockTable& parent, BlockTable& child, int32_t num_tokens);

  // The step that did table.copy is committed.
  void ReleaseCopySource(BlockTable& table);

  // Releases the blocks, last one first, so that a prefix outlives what was built on it. The hashes
  // stay: a preempted sequence looks for its own blocks when it returns.
  void Free(BlockTable& table);

  // No key of the first `num_tokens` tokens or of what the sequence has copied, nor any that
  // descends from one, can be found from now on, whoever holds the block: for values that must
  // never be shared again because they are not finite. O(descendants).
  void Unpublish(const BlockTable& table, int32_t num_tokens);

  // Forgets every published block. False, with nothing changed, while any block is in use.
  [[nodiscard]] bool ResetPrefixCache();

  // Gives up cached blocks that nobody uses until at most `num_cached_max` are left.
  void EvictTo(int32_t num_cached_max) { pool_.EvictTo(num_cached_max); }

  // Once per admitted request, `self` for a sequence that comes back after a preemption.
  // `num_copied_tokens` of the `num_hit_tokens` are in a block that was copied.
  void CountQuery(int32_t num_tokens, int32_t num_hit_tokens, int32_t num_copied_tokens = 0);
  void CountSelfQuery(int32_t num_tokens, int32_t num_hit_tokens);
  KvCacheStats TakeStats();  // counters since the last call

  // Keeps what changes from now on, up to `events_max` events between two calls of ClearEvents; a
  // listener begins with Snapshot, which allocates, and goes on with Events.
  void Listen(size_t events_max) { pool_.event_log().Listen(events_max, options_.block_size); }
  KvEvents Events() { return pool_.event_log().events(); }
  void ClearEvents() { pool_.event_log().Clear(); }
  KvSnapshot Snapshot() const;

  bool Fits(int64_t num_tokens) const { return num_tokens <= capacity_tokens(); }
  int64_t capacity_tokens() const { return int64_t{options_.num_blocks} * options_.block_size; }
  int32_t num_blocks() const { return options_.num_blocks; }
  int32_t block_size() const { return options_.block_size; }
  int32_t num_free() const { return pool_.num_free(); }
  int32_t num_used() const { return options_.num_blocks - pool_.num_free(); }
  int32_t num_cached() const { return pool_.num_cached_free(); }  // free, and findable
  const BlockPool& pool() const { return pool_; }
  const BlockHasher& hasher() const { return hasher_; }
  const KvCacheOptions& options() const { return options_; }

  size_t num_metadata_bytes() const;  // the tokens that are stored do not count

  // Aborts if an invariant is broken. O(blocks); allocates. `tables` are all live ones.
  void CheckInvariants(std::span<const BlockTable* const> tables) const;

 private:
  int32_t BlocksFor(int32_t num_tokens) const {
    return (num_tokens + options_.block_size - 1) / options_.block_size;
  }
  void ReleaseFrom(BlockTable& table, size_t num_kept);

  // kv_cache_lookup.cpp
  std::span<TokenId> StoredTokens(BlockId id);
  std::span<const TokenId> StoredTokens(BlockId id) const;
  uint64_t ChainTag(const BlockTable& table, TokenId first) const;
  size_t ContentSlot(std::span<const TokenId> block) const;
  bool Follows(BlockId id, BlockId before) const;
  bool Holds(BlockId id, BlockId before, size_t index, std::span<const TokenId> block,
             const BlockTable& table) const;
  bool HasKeyOf(BlockId id, std::span<const BlockId> found, const BlockTable& table) const;
  struct PartialHit {
    BlockId block = kNoBlock;
    int32_t num_tokens = 0;
  };
  bool IsWorthCopying(const PartialHit& hit, size_t num_left) const;
  PartialHit FindPartial(std::span<const TokenId> rest, const BlockTable& table,
                         std::span<const BlockId> found) const;
  size_t NumVerified(const SequenceTokens& tokens, const BlockTable& table,
                     std::span<const BlockId> found) const;
  bool IsKeyTaken(const BlockTable& table, size_t index, std::span<const TokenId> block) const;
  uint64_t BeginChain(const BlockTable& table, BlockId id, std::span<const TokenId> block);

  // What was last seen of a first block's tokens, whatever the salt.
  struct Content {
    BlockId block = kNoBlock;
    uint64_t tenant = 0;
  };

  KvCacheOptions options_;
  int32_t copy_min_tokens_;
  BlockHasher hasher_;
  BlockPool pool_;
  bool verifies_;               // equal keys are no proof: contents are compared
  std::vector<BlockId> found_;  // what GetComputedBlocks returns a view of
  Table<TokenId> tokens_;       // of each published block
  std::vector<std::array<uint8_t, 32>>
      namespace_keys_;  // of blocks that start chains, if verifies_
  std::vector<Content> contents_;
  KvCacheStats stats_;
};

}  // namespace incipit
