// Assigns the tokens of sequences to the blocks of a paged KV cache, and shares blocks between
// sequences with a common prefix. KvCacheManager handles block ids only. The model runner owns the
// keys and values.
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
  int32_t block_size = 16;  // tokens per block: a power of two, at most 256
  HashAlgorithm hash = HashAlgorithm::kSha256;
  std::string seed{};  // seed of the hash chains; equal seeds give equal keys in every process
  bool prefix_cache = true;   // false: the cache neither finds nor publishes blocks
  bool copy_on_write = true;  // false: lookups find full blocks only
  EvictionPolicyKind policy = EvictionPolicyKind::kAdaptive;
  int32_t policy_capacity = 0;    // blocks for which the policy sizes its memory; 0: num_blocks
  int32_t policy_block_size = 0;  // tokens per block that the policy assumes; 0: block_size
  RetentionLimits retention{};
};

// Settings with which tests make rare cases frequent. The product uses the defaults.
struct KvCacheSeams {
  int32_t digest_bits = kDigestBitsMax;  // bits kept of each digest; few bits make keys collide
  // Minimum number of equal tokens for which a part of a block is copied. A shorter match is copied
  // only if the match covers the whole rest of the prompt. 0: a quarter of a block, at least 2
  // tokens.
  int32_t copy_min_tokens = 0;
};

// Returns OK or INVALID_ARGUMENT. The error message names the field, its value and the bound.
absl::Status ValidateKvCacheOptions(const KvCacheOptions& options);

// Counters of the prefix cache. The lookup of a request is counted once, when the first step that
// computes for the request is committed. The lookup counters leave out requests that do not read
// the cache.
struct KvCacheStats {
  int64_t queries = 0;            // requests whose lookup was counted
  int64_t query_tokens = 0;       // prompt tokens that were looked up
  int64_t hit_tokens = 0;         // tokens found in the cache, among query_tokens
  int64_t copied_tokens = 0;      // found tokens in a copied block, among hit_tokens
  int64_t self_query_tokens = 0;  // tokens looked up by sequences that resume after a preemption
  int64_t self_hit_tokens = 0;
  int64_t stored_blocks = 0;  // blocks that were published
  int64_t regret_blocks = 0;  // published blocks that had been evicted recently
  int64_t collisions = 0;     // keys that a block with other contents already had; 0 with sha256
  EvictionStats evictions;

  KvCacheStats& operator+=(const KvCacheStats& other);
};

// The blocks of one sequence, in order. The scheduler sets root, tenant, retention and the hashes
// of the prompt when it creates the sequence. Only KvCacheManager changes the other members.
// `hashes` and `blocks` have reserved capacity for the maximum length of the sequence.
struct BlockTable {
  ChainRoot root;       // start of the hash chain, from BlockHasher::Root
  uint64_t tenant = 0;  // tenant that may retain a limited share of the pool
  Retention retention;
  std::vector<BlockHash> hashes;  // keys of full blocks; the keys of the prompt are precomputed
  std::vector<BlockId> blocks;    // ids of the blocks; append-only while the sequence runs
  int32_t num_published = 0;  // leading blocks that were found or published, including pending ones
  int32_t num_confirmed = 0;  // leading blocks that were found, or published by a committed step
  int32_t num_committed = 0;  // leading blocks that hold tokens of committed steps
  bool collided = false;      // a key of the sequence belongs to other contents; publishing stops
  SequenceUse use;
  // Block copy that must run before the next step of the sequence. The sequence counts as a user of
  // the source block until ReleaseCopySource.
  BlockCopy copy;
  std::optional<BlockHash> copied_from{};  // key of the block from which tokens were copied
};

struct ComputedBlocks {
  std::span<const BlockId> blocks;  // found full blocks in order; valid until the next lookup
  BlockId copy_source = kNoBlock;   // block whose first `copy_tokens` tokens continue `blocks`
  int32_t copy_tokens = 0;
  int32_t num_tokens = 0;  // tokens in `blocks` and in the copied part of `copy_source`
  int32_t num_idle = 0;    // blocks without users, among `blocks` and `copy_source`
};

// Whether a lookup may also find a part of a block.
enum class PartialMatch : uint8_t { kNo, kAllowed };

enum class MissReason : uint8_t {
  kNone,            // all full blocks were found
  kUnseen,          // the cache has no record of the first missing block
  kEvicted,         // the first missing block was evicted
  kOtherNamespace,  // the tenant cached these tokens under another salt or adapter
};

// The reason why a lookup did not find a longer prefix.
struct Miss {
  MissReason reason = MissReason::kNone;
  int32_t block = -1;            // index of the first full block that was not found
  int32_t differing_token = -1;  // first token that differs from the nearest cached chain
  Duration evicted_ago{};        // time since the eviction; only for kEvicted
};

// The effects that an admission of a sequence would have now.
struct AdmissionPreview {
  bool fits = false;
  int32_t cached_tokens = 0;   // found tokens, including tokens of a copied block
  int32_t blocks_needed = 0;   // free blocks that the sequence would use
  int32_t blocks_evicted = 0;  // cached blocks that would be evicted, among blocks_needed
};

// Assigns tokens to cache blocks and shares blocks between sequences (docs/kv_cache.md).
// CheckInvariants tests these invariants:
// (1) Each block either has users or is free.
// (2) The number of users of a block is the number of live block tables that contain the block,
// plus the number of unfinished copies from the block.
// (3) Each entry of the index leads to a block with the key of the entry. Each published block can
// be reached from the index.
// (4) If a block is published, a block with the key of its parent is published.
// Threading: only the engine thread calls the manager. Exceptions are Fits, hasher and options,
// which read constants and are thread-safe. After construction, only Listen, Snapshot and
// CheckInvariants allocate memory.
class KvCacheManager {
 public:
  // REQUIRES: ValidateKvCacheOptions(`options`) returns OK.
  explicit KvCacheManager(const KvCacheOptions& options, const KvCacheSeams& seams = {});

  // Advances the clock to `now` (monotonic) and evicts blocks whose time to live has passed.
  void Advance(Time now) { pool_.Advance(now); }

  // Returns the longest cached prefix of `tokens`, without the last token. The last token is left
  // out because the model must compute one token to produce logits. The call changes no block.
  ComputedBlocks GetComputedBlocks(const SequenceTokens& tokens, const BlockTable& table,
                                   PartialMatch partial = PartialMatch::kAllowed);

  // Returns the reason why the prefix in `computed` is not longer. REQUIRES: `computed` is the
  // result of GetComputedBlocks for `tokens` and `table`.
  Miss ExplainMiss(const SequenceTokens& tokens, const BlockTable& table,
                   const ComputedBlocks& computed) const;

  // Returns the number of free blocks that a sequence needs for its first `num_tokens` tokens, if
  // the sequence uses the blocks of `computed`. The number includes the blocks of `computed` that
  // have no users yet.
  int32_t BlocksNeeded(const BlockTable& table, const ComputedBlocks& computed,
                       int32_t num_tokens) const;
  // Returns the effects that an admission of the sequence would have, and changes nothing.
  AdmissionPreview Preview(const BlockTable& table, const ComputedBlocks& computed,
                           int32_t num_tokens) const;

  // Adds the sequence as a user of the blocks in `computed`, and allocates blocks for the first
  // `num_tokens` tokens of the sequence. Returns false, and changes nothing, if too few blocks are
  // free. If `computed` has a copy source, table.copy describes the copy that must run before the
  // step. REQUIRES: `computed` is empty, or `table` has no blocks.
  [[nodiscard]] bool AllocateSlots(BlockTable& table, const ComputedBlocks& computed,
                                   int32_t num_tokens);

  // Makes the blocks that the planned step fills findable as pending. `tokens` are all tokens of
  // the sequence that are stored after the step. Sequences of the same step may share pending
  // blocks, because each layer writes all keys and values of a step before the layer reads any.
  void Announce(BlockTable& table, const SequenceTokens& tokens);

  // Publishes the full blocks among the first `num_computed` tokens of the sequence. Only
  // CacheBlocks makes a block findable for good. REQUIRES: committed steps have stored the keys and
  // values of these tokens.
  void CacheBlocks(BlockTable& table, const SequenceTokens& tokens, int32_t num_computed);

  // Undoes a failed step. Withdraws the blocks that were announced since the last CacheBlocks or
  // Fork of `table`, and releases the blocks that were allocated since then. The blocks of the
  // first `num_tokens_in_flight` tokens stay, because an older step in flight needs these blocks;
  // 0: no older step is in flight. REQUIRES: newer steps, and later sequences of the same step, are
  // already rolled back.
  void Rollback(BlockTable& table, int32_t num_tokens_in_flight = 0);

  // Fills the empty table `child` with the first `num_tokens` tokens of `parent`. Both tables share
  // the full blocks. If the last block is partial, `child` gets a new block, and child.copy
  // describes how to fill the new block. Returns false, and changes nothing, if no block is free
  // for a partial block.
  [[nodiscard]] bool Fork(const BlockTable& parent, BlockTable& child, int32_t num_tokens);

  // Releases the source block of table.copy. REQUIRES: the step that ran the copy is committed.
  void ReleaseCopySource(BlockTable& table);

  // Releases the blocks of `table` from last to first, so the first blocks of a prefix stay cached
  // longest. The hashes stay in `table`, because a preempted sequence later looks up its own
  // blocks.
  void Free(BlockTable& table);

  // Makes all blocks unfindable that have a key of the first `num_tokens` tokens or the key of the
  // copied block. All blocks that continue these blocks also become unfindable, even if other
  // sequences use them. The scheduler calls Unpublish for keys and values that are not finite.
  // The cost is O(number of unpublished blocks).
  void Unpublish(const BlockTable& table, int32_t num_tokens);

  // Makes all blocks unfindable. Returns false, and changes nothing, if any block has a user.
  [[nodiscard]] bool ResetPrefixCache();

  // Evicts free cached blocks until at most `num_cached_max` free cached blocks are left.
  void EvictTo(int32_t num_cached_max) { pool_.EvictTo(num_cached_max); }

  // Counts the lookup of a request that is admitted for the first time. `num_copied_tokens` of the
  // `num_hit_tokens` are in a copied block.
  void CountQuery(int32_t num_tokens, int32_t num_hit_tokens, int32_t num_copied_tokens = 0);
  // Counts the lookup of a sequence that is admitted again after a preemption.
  void CountSelfQuery(int32_t num_tokens, int32_t num_hit_tokens);
  KvCacheStats TakeStats();  // returns the counters since the last call

  // Starts the event log, with room for `events_max` events between two calls of ClearEvents. A
  // listener first calls Snapshot, which allocates memory, and then reads Events.
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
  int32_t num_cached() const { return pool_.num_cached_free(); }  // free, findable
  const BlockPool& pool() const { return pool_; }
  const BlockHasher& hasher() const { return hasher_; }
  const KvCacheOptions& options() const { return options_; }

  size_t num_metadata_bytes() const;  // bytes of metadata, without the stored tokens

  // Aborts the process if an invariant is broken. `tables` are all live block tables. The cost is
  // O(number of blocks), and the call allocates memory.
  void CheckInvariants(std::span<const BlockTable* const> tables) const;

 private:
  int32_t BlocksFor(int32_t num_tokens) const {
    return (num_tokens + options_.block_size - 1) / options_.block_size;
  }
  void ReleaseFrom(BlockTable& table, size_t num_kept);

  // The following functions are defined in kv_cache_lookup.cpp.
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

  // The block that last started a chain with certain tokens under any salt, and the tenant of the
  // block.
  struct Content {
    BlockId block = kNoBlock;
    uint64_t tenant = 0;
  };

  KvCacheOptions options_;
  int32_t copy_min_tokens_;
  BlockHasher hasher_;
  BlockPool pool_;
  bool verifies_;               // true if lookups must compare contents, because keys may collide
  std::vector<BlockId> found_;  // blocks that the last GetComputedBlocks returned
  Table<TokenId> tokens_;       // tokens of each published block
  std::vector<std::array<uint8_t, 32>> namespace_keys_;  // digests for first blocks, if verifies_
  std::vector<Content> contents_;
  KvCacheStats stats_;
};

}  // namespace incipit
