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
  // Text in the hash of every block key; processes with equal seeds compute equal keys.
  std::string seed{};
  bool prefix_cache = true;  // false: lookups find no blocks, and no block is published
  // false: lookups find full blocks only, and no part of a block is copied.
  bool copy_on_write = true;
  EvictionPolicyKind policy = EvictionPolicyKind::kAdaptive;
  // Number of blocks for which the policy sizes its tables; 0: num_blocks.
  int32_t policy_capacity = 0;
  // Tokens per block that the eviction policy assumes; 0: block_size.
  int32_t policy_block_size = 0;
  RetentionLimits retention{};
};

// Settings with which tests make rare cases frequent, such as key collisions. The server uses the
// default values.
struct KvCacheSeams {
  // Number of bits kept of each digest; with few bits, keys collide.
  int32_t digest_bits = kDigestBitsMax;
  // Minimum number of equal leading tokens for which a part of a cached block is copied. A shorter
  // match is copied only if the match covers the whole rest of the prompt. 0: a quarter of a block,
  // at least 2 tokens.
  int32_t copy_min_tokens = 0;
};

// Returns OK or INVALID_ARGUMENT. The error message names the field, its value and the bound.
absl::Status ValidateKvCacheOptions(const KvCacheOptions& options);

// Counters of the prefix cache. The lookup of a request is counted once, when the first step that
// computes tokens of the request is committed. The lookup counters leave out requests that do not
// read the cache.
struct KvCacheStats {
  int64_t queries = 0;        // number of requests whose lookup was counted
  int64_t query_tokens = 0;   // number of prompt tokens that were looked up
  int64_t hit_tokens = 0;     // prompt tokens that were found in the cache, among query_tokens
  int64_t copied_tokens = 0;  // prompt tokens that were found in a copied block, among hit_tokens
  int64_t self_query_tokens = 0;  // tokens looked up by sequences that resume after a preemption
  // Tokens found in the cache, among self_query_tokens.
  int64_t self_hit_tokens = 0;
  int64_t stored_blocks = 0;  // blocks that were published, so that later requests can find them
  int64_t regret_blocks = 0;  // published blocks whose keys had been evicted recently
  // Blocks whose key a block with other contents already had; 0 with sha256.
  int64_t collisions = 0;
  EvictionStats evictions;

  KvCacheStats& operator+=(const KvCacheStats& other);
};

// The blocks of one sequence, in the order of the tokens. The scheduler sets root, tenant,
// retention and the hashes of the prompt when it creates the sequence. Only KvCacheManager changes
// the other members. `hashes` and `blocks` have reserved capacity for the maximum length of the
// sequence.
struct BlockTable {
  ChainRoot root;  // start of the chain of block keys, from BlockHasher::Root
  // Number of the tenant (TenantDigest), for the limit of retained blocks per tenant.
  uint64_t tenant = 0;
  Retention retention;
  std::vector<BlockHash> hashes;  // keys of the full blocks; the keys of the prompt are precomputed
  std::vector<BlockId> blocks;  // ids of the sequence's blocks; append-only while the sequence runs
  // Number of leading blocks that were found or published, including pending blocks.
  int32_t num_published = 0;
  // Number of leading blocks that were found, or published by a committed step.
  int32_t num_confirmed = 0;
  int32_t num_committed = 0;  // number of leading blocks that hold tokens of committed steps
  // A block with other contents has a key of this sequence; publishing stops.
  bool collided = false;
  SequenceUse use;
  // Block copy that must run before the next step of the sequence. Until ReleaseCopySource is
  // called, the sequence counts as a user of the source block.
  BlockCopy copy;
  std::optional<BlockHash> copied_from{};  // key of the block from which `copy` copies tokens
};

struct ComputedBlocks {
  // Found full blocks in the order of the tokens; valid until the next lookup.
  std::span<const BlockId> blocks;
  // Block whose first `copy_tokens` tokens follow the tokens of `blocks`.
  BlockId copy_source = kNoBlock;
  int32_t copy_tokens = 0;
  int32_t num_tokens = 0;  // number of tokens in `blocks` and in the copied part of `copy_source`
  int32_t num_idle = 0;    // number of blocks without users, among `blocks` and `copy_source`
};

// Whether a lookup may also find a part of a block. Found parts of blocks are copied.
enum class PartialMatch : uint8_t { kNo, kAllowed };

enum class MissReason : uint8_t {
  kNone,            // all full blocks of the prompt were found
  kUnseen,          // the cache has no record of the first missing block
  kEvicted,         // the first missing block was evicted
  kOtherNamespace,  // the tenant cached the same tokens with another salt or adapter
};

// The reason why a lookup did not find a longer prefix of the prompt.
struct Miss {
  MissReason reason = MissReason::kNone;
  int32_t block = -1;  // index of the first full block that the lookup did not find
  // Index of the first token that differs from the most similar cached prefix.
  int32_t differing_token = -1;
  Duration evicted_ago{};  // time since the first missing block was evicted; only for kEvicted
};

// The effects that the admission of a sequence would have at this moment.
struct AdmissionPreview {
  bool fits = false;
  int32_t cached_tokens = 0;   // tokens that the lookup found, including tokens of a copied block
  int32_t blocks_needed = 0;   // number of free blocks that the sequence would use
  int32_t blocks_evicted = 0;  // number of cached blocks that would be evicted, among blocks_needed
};

// Assigns tokens to cache blocks and shares blocks between sequences (docs/kv_cache.md).
// CheckInvariants tests these invariants:
// (1) Each block either has users or is free.
// (2) The number of users of a block is the number of live block tables that contain the block,
// plus the number of unfinished copies from the block.
// (3) The index maps each key to a block with this key, and every published block is reachable from
// the index.
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

  // Returns the blocks of the longest cached prefix of `tokens`. The last token is never part of
  // the prefix, because the model must compute at least one token to produce logits. The call
  // changes no block.
  ComputedBlocks GetComputedBlocks(const SequenceTokens& tokens, const BlockTable& table,
                                   PartialMatch partial = PartialMatch::kAllowed);

  // Returns the reason why the cached prefix in `computed` is not longer. REQUIRES: `computed` is
  // the result of GetComputedBlocks for `tokens` and `table`.
  Miss ExplainMiss(const SequenceTokens& tokens, const BlockTable& table,
                   const ComputedBlocks& computed) const;

  // Returns the number of free blocks that a sequence needs for its first `num_tokens` tokens, if
  // the sequence uses the blocks of `computed`. The number includes the blocks of `computed` that
  // have no users yet.
  int32_t BlocksNeeded(const BlockTable& table, const ComputedBlocks& computed,
                       int32_t num_tokens) const;
  // Returns the effects that the admission of the sequence would have, and changes nothing.
  AdmissionPreview Preview(const BlockTable& table, const ComputedBlocks& computed,
                           int32_t num_tokens) const;

  // Adds the sequence as a user of the blocks in `computed`, and allocates blocks for the first
  // `num_tokens` tokens of the sequence. Returns false, and changes nothing, if too few blocks are
  // free. If `computed` has a copy source, table.copy describes the copy that must run before the
  // step. REQUIRES: `computed` is empty, or `table` has no blocks.
  [[nodiscard]] bool AllocateSlots(BlockTable& table, const ComputedBlocks& computed,
                                   int32_t num_tokens);

  // Makes the blocks that the planned step fills findable before the step has run (pending).
  // `tokens` are all tokens of the sequence that are stored after the step. Sequences of the same
  // step may share pending blocks, because each layer writes all keys and values of a step before
  // the layer reads any.
  void Announce(BlockTable& table, const SequenceTokens& tokens);

  // Publishes the full blocks among the first `num_computed` tokens of the sequence, so that
  // lookups find the blocks until their eviction. REQUIRES: committed steps have stored the keys
  // and values of these tokens.
  void CacheBlocks(BlockTable& table, const SequenceTokens& tokens, int32_t num_computed);

  // Undoes a failed step for the sequence of `table`. Withdraws the blocks that were announced
  // since the last CacheBlocks or Fork of `table`, and releases the blocks that were allocated
  // since then. Keeps the blocks of the first `num_tokens_in_flight` tokens, because an older step
  // in flight needs these blocks; 0: no older step is in flight. REQUIRES: newer steps, and later
  // sequences of the same step, are already rolled back.
  void Rollback(BlockTable& table, int32_t num_tokens_in_flight = 0);

  // Fills the empty table `child` with the first `num_tokens` tokens of `parent`, for another
  // choice of the same request. Both tables share the full blocks. If the last block is partial,
  // `child` gets a new block, and child.copy describes how to fill the new block. Returns false,
  // and changes nothing, if no block is free for a partial block.
  [[nodiscard]] bool Fork(const BlockTable& parent, BlockTable& child, int32_t num_tokens);

  // Releases the block from which table.copy copies tokens. REQUIRES: the step that ran the copy is
  // committed.
  void ReleaseCopySource(BlockTable& table);

  // Releases the blocks of `table` from last to first, so the first blocks of a prefix stay cached
  // longest. The hashes stay in `table`, because a preempted sequence later looks up its own
  // blocks.
  void Free(BlockTable& table);

  // Makes the blocks with the keys of the first `num_tokens` tokens unfindable, and also the block
  // with the key table.copied_from. All blocks that continue these blocks become unfindable too,
  // even if other sequences use the blocks. The scheduler calls Unpublish if keys and values are
  // not finite. The cost is O(number of unpublished blocks).
  void Unpublish(const BlockTable& table, int32_t num_tokens);

  // Makes all blocks unfindable. Returns false, and changes nothing, if any block has a user.
  [[nodiscard]] bool ResetPrefixCache();

  // Evicts free cached blocks until at most `num_cached_max` free cached blocks are left.
  void EvictTo(int32_t num_cached_max) { pool_.EvictTo(num_cached_max); }

  // Counts the prefix lookup of a request that is admitted for the first time. `num_copied_tokens`
  // of the `num_hit_tokens` found tokens are in a copied block.
  void CountQuery(int32_t num_tokens, int32_t num_hit_tokens, int32_t num_copied_tokens = 0);
  // Counts the prefix lookup of a sequence that is admitted again after a preemption.
  void CountSelfQuery(int32_t num_tokens, int32_t num_hit_tokens);
  KvCacheStats TakeStats();  // returns the counters since the last call of TakeStats

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
  // Free blocks that lookups can find.
  int32_t num_cached() const { return pool_.num_cached_free(); }
  const BlockPool& pool() const { return pool_; }
  const BlockHasher& hasher() const { return hasher_; }
  const KvCacheOptions& options() const { return options_; }

  size_t num_metadata_bytes() const;  // metadata of all blocks in bytes, without the stored tokens

  // Aborts the process if an invariant of the cache is broken. `tables` are the block tables of all
  // live sequences. The cost is O(number of blocks), and the call allocates memory.
  void CheckInvariants(std::span<const BlockTable* const> tables) const;

 private:
  int32_t BlocksFor(int32_t num_tokens) const {
    return (num_tokens + options_.block_size - 1) / options_.block_size;
  }
  void ReleaseFrom(BlockTable& table, size_t num_kept);

  // The functions from StoredTokens to BeginChain are defined in kv_cache_lookup.cpp.
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

  // An entry of `contents_`, which finds blocks by tokens alone: the block that last started a
  // sequence with certain tokens under any salt, and the tenant of the block.
  struct Content {
    BlockId block = kNoBlock;
    uint64_t tenant = 0;
  };

  KvCacheOptions options_;
  int32_t copy_min_tokens_;
  BlockHasher hasher_;
  BlockPool pool_;
  bool verifies_;               // true if blocks with equal keys may have different contents
  std::vector<BlockId> found_;  // blocks that the last GetComputedBlocks found
  Table<TokenId> tokens_;       // token ids of each published block
  // Namespace digest of each block that is the first of a sequence; empty unless verifies_.
  std::vector<std::array<uint8_t, 32>> namespace_keys_;
  std::vector<Content> contents_;
  KvCacheStats stats_;
};

}  // namespace incipit
