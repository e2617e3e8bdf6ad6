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
  // Text that is hashed into every block key. Two processes compute equal keys only if their seeds
  // are equal.
  std::string seed{};
  bool prefix_cache = true;  // false: no block becomes findable for lookups
  // false: lookups find full blocks only, and no part of a block is copied.
  bool copy_on_write = true;
  EvictionPolicyKind policy = EvictionPolicyKind::kAdaptive;
  // Number of blocks for which the eviction policy sizes its tables. 0: the same as num_blocks.
  int32_t policy_capacity = 0;
  // Tokens per block that the eviction policy assumes. 0: the same as block_size.
  int32_t policy_block_size = 0;
  RetentionLimits retention{};
};

// Settings for tests. With these settings, tests make rare cases frequent, such as equal keys of
// different blocks.
struct KvCacheSeams {
  // Number of bits of each digest that are kept. With few bits, different blocks often have equal
  // keys.
  int32_t digest_bits = kDigestBitsMax;
  // Minimum number of equal leading tokens for which a part of a cached block is copied. A shorter
  // match is copied only if the match covers all remaining tokens of the prompt. 0: a quarter of a
  // block, but at least 2 tokens.
  int32_t copy_min_tokens = 0;
};

// Returns OK or INVALID_ARGUMENT. The error message names the field, its value and the bound.
absl::Status ValidateKvCacheOptions(const KvCacheOptions& options);

// Counters of the prefix cache. The lookup of a request is counted when the first step of the
// request is committed. Requests that do not read the cache are not counted as lookups.
struct KvCacheStats {
  int64_t queries = 0;       // number of requests whose lookup was counted
  int64_t query_tokens = 0;  // number of prompt tokens that were looked up
  int64_t hit_tokens = 0;    // number of tokens, among query_tokens, that were found in the cache
  // Number of tokens, among hit_tokens, that were found in a cached block of which only the first
  // tokens match. Their keys and values were copied to a new block.
  int64_t copied_tokens = 0;
  // Number of tokens that preempted sequences looked up when they were resumed.
  int64_t self_query_tokens = 0;
  // Number of tokens, among self_query_tokens, that were found in the cache.
  int64_t self_hit_tokens = 0;
  // Number of blocks that were published (made findable for later requests).
  int64_t stored_blocks = 0;
  // Number of published (findable) blocks whose key had been evicted recently.
  int64_t regret_blocks = 0;
  // Number of times that two blocks with different contents had the same key. Always 0 with sha256.
  int64_t collisions = 0;
  EvictionStats evictions;

  KvCacheStats& operator+=(const KvCacheStats& other);
};

// The blocks of one sequence, in the order of the tokens. The scheduler creates the table, and sets
// root, tenant, retention and the hashes of the prompt. Later, only KvCacheManager changes the
// table.
struct BlockTable {
  // Inputs of the block keys of the sequence, other than tokens (from BlockHasher::Root).
  ChainRoot root;
  // Number of the tenant (TenantDigest). A tenant may retain only a limited number of blocks.
  uint64_t tenant = 0;
  Retention retention;
  // Keys of the full blocks. The keys of all full blocks of the prompt are computed before the
  // sequence runs.
  std::vector<BlockHash> hashes;
  std::vector<BlockId> blocks;  // ids of the blocks of the sequence, in the order of the tokens
  // Number of leading blocks that a lookup found or that were published (made findable). Blocks
  // that a step in flight will fill are included.
  int32_t num_published = 0;
  // Number of leading blocks that a lookup found, or that were published (made findable) by a
  // committed step.
  int32_t num_confirmed = 0;
  int32_t num_committed = 0;  // number of leading blocks that hold tokens of committed steps
  // True if a block with other contents already had the key of a block of this sequence. No later
  // block of this sequence is then published (made findable).
  bool collided = false;
  SequenceUse use;
  // The block copy that must run before the next step of the sequence. The source block cannot be
  // evicted until ReleaseCopySource is called.
  BlockCopy copy;
  std::optional<BlockHash> copied_from{};  // key of the block from which `copy` copies tokens
};

struct ComputedBlocks {
  // Full blocks that the lookup found, in the order of the tokens. Valid until the next lookup.
  std::span<const BlockId> blocks;
  // Block whose first `copy_tokens` tokens equal the tokens of the sequence after `blocks`.
  // kNoBlock: none.
  BlockId copy_source = kNoBlock;
  int32_t copy_tokens = 0;
  int32_t num_tokens = 0;  // number of tokens in `blocks` and in the copied part of `copy_source`
  int32_t num_idle = 0;    // number of blocks, among `blocks` and `copy_source`, that have no users
};

// Whether a lookup may also return a block of which only the first tokens match. The matching
// tokens are then copied to a new block.
enum class PartialMatch : uint8_t { kNo, kAllowed };

enum class MissReason : uint8_t {
  kNone,  // all full blocks of the prompt were found
  // The first missing block was never cached, or was evicted so long ago that the cache has
  // forgotten it.
  kUnseen,
  kEvicted,         // the first missing block was cached and evicted
  kOtherNamespace,  // the same tenant cached the same tokens with another salt or adapter
};

// The reason why a lookup did not find a longer prefix of the prompt.
struct Miss {
  MissReason reason = MissReason::kNone;
  int32_t block = -1;  // index of the first full block that the lookup did not find
  // Index of the first prompt token that differs from the most similar cached prefix.
  int32_t differing_token = -1;
  Duration evicted_ago{};  // time since the first missing block was evicted; only for kEvicted
};

// The effects of an admission of a sequence, if the sequence were admitted now.
struct AdmissionPreview {
  bool fits = false;
  // Number of tokens that the lookup found, including tokens of a copied block.
  int32_t cached_tokens = 0;
  int32_t blocks_needed = 0;  // number of free blocks that the sequence would use
  // Number of cached blocks, among blocks_needed, that would be evicted.
  int32_t blocks_evicted = 0;
};

// Assigns tokens to cache blocks and shares blocks between sequences (docs/kv_cache.md). Only the
// engine thread calls the manager. Exceptions are the thread-safe functions Fits, hasher and
// options. After construction, only Listen, Snapshot and CheckInvariants allocate memory.
//
// CheckInvariants tests these invariants:
// - Each block either has users or is free.
// - The users of a block are the live block tables that contain the block, and the unfinished
//   copies from the block.
// - The index maps each key to a block with this key, and every published (findable) block is
//   reachable from the index.
// - If lookups can find a block, lookups can also find a block with the key of its parent.
class KvCacheManager {
 public:
  // REQUIRES: ValidateKvCacheOptions(`options`) returns OK.
  explicit KvCacheManager(const KvCacheOptions& options, const KvCacheSeams& seams = {});

  // Advances the clock of the cache to `now`, and evicts blocks whose time to live has passed.
  // `now` must not decrease between calls.
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

  // Returns how many free blocks a sequence would use for its first `num_tokens` tokens, if the
  // sequence also uses the cached blocks of `computed`. Blocks of `computed` without users count as
  // free.
  int32_t BlocksNeeded(const BlockTable& table, const ComputedBlocks& computed,
                       int32_t num_tokens) const;
  // Returns the effects that the admission of the sequence would have. Changes nothing.
  AdmissionPreview Preview(const BlockTable& table, const ComputedBlocks& computed,
                           int32_t num_tokens) const;

  // Allocates blocks for the first `num_tokens` tokens of a sequence, and adds the sequence as a
  // user of the blocks in `computed`. If `computed` names a block to copy, sets table.copy. Returns
  // false, and changes nothing, if too few blocks are free. REQUIRES: `computed` is empty, or
  // `table` has no blocks.
  [[nodiscard]] bool AllocateSlots(BlockTable& table, const ComputedBlocks& computed,
                                   int32_t num_tokens);

  // Makes the blocks that a planned step will fill findable, before the step has run. `tokens` are
  // all tokens of the sequence whose keys and values are stored after the step. Other sequences of
  // the step may share the blocks, because each model layer writes all keys and values before it
  // reads any.
  void Announce(BlockTable& table, const SequenceTokens& tokens);

  // Publishes the full blocks among the first `num_computed` tokens of the sequence, so that
  // lookups find the blocks until their eviction. REQUIRES: committed steps have stored the keys
  // and values of these tokens.
  void CacheBlocks(BlockTable& table, const SequenceTokens& tokens, int32_t num_computed);

  // Undoes a failed step for the sequence of `table`: the blocks that were announced or allocated
  // since the last CacheBlocks or Fork become unfindable and are released. Keeps the blocks of the
  // first `num_tokens_in_flight` tokens, for an older step in flight (0: none). REQUIRES: newer
  // steps, and later sequences of the same step, are already rolled back.
  void Rollback(BlockTable& table, int32_t num_tokens_in_flight = 0);

  // Fills the empty table `child` with the first `num_tokens` tokens of `parent`, for another
  // choice (output) of the request. The tables share the full blocks. child.copy describes how to
  // copy a partial last block to a new block. Returns false, and changes nothing, if no block is
  // free for the copy.
  [[nodiscard]] bool Fork(const BlockTable& parent, BlockTable& child, int32_t num_tokens);

  // Releases the block from which table.copy copies tokens. REQUIRES: the step that ran the copy is
  // committed.
  void ReleaseCopySource(BlockTable& table);

  // Releases the blocks of `table` from last to first, so that the first blocks of the sequence are
  // evicted last. table.hashes does not change, because a preempted sequence later looks up its own
  // blocks.
  void Free(BlockTable& table);

  // Makes the blocks of the first `num_tokens` tokens, the block with the key table.copied_from and
  // all blocks that continue these blocks unfindable, even if other sequences use them. The
  // scheduler calls Unpublish if keys or values are NaN or infinite. The cost is O(number of blocks
  // that become unfindable).
  void Unpublish(const BlockTable& table, int32_t num_tokens);

  // Makes all blocks unfindable. Returns false, and changes nothing, if any block has a user.
  [[nodiscard]] bool ResetPrefixCache();

  // Evicts cached blocks without users until at most `num_cached_max` such blocks are left.
  void EvictTo(int32_t num_cached_max) { pool_.EvictTo(num_cached_max); }

  // Counts the prefix lookup of a request that is admitted for the first time. `num_tokens` tokens
  // were looked up, and `num_hit_tokens` of them were found. `num_copied_tokens` of the found
  // tokens are in a copied block.
  void CountQuery(int32_t num_tokens, int32_t num_hit_tokens, int32_t num_copied_tokens = 0);
  // Counts the prefix lookup of a sequence that is admitted again after a preemption. `num_tokens`
  // tokens were looked up, and `num_hit_tokens` of them were found.
  void CountSelfQuery(int32_t num_tokens, int32_t num_hit_tokens);
  KvCacheStats TakeStats();  // returns the counters since the last call of TakeStats

  // Starts the log of cache events (blocks that become findable or unfindable). The log holds at
  // most `events_max` events; ClearEvents empties the log.
  void Listen(size_t events_max) { pool_.event_log().Listen(events_max, options_.block_size); }
  KvEvents Events() { return pool_.event_log().events(); }
  void ClearEvents() { pool_.event_log().Clear(); }
  // Returns the keys of all blocks that lookups can find. A listener calls Snapshot once before the
  // listener reads Events. The call allocates memory.
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

  // Memory for the metadata of all blocks, in bytes, without the token ids.
  size_t num_metadata_bytes() const;

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

  // An entry of `contents_`, a table that finds first blocks of sequences by their tokens: the
  // newest block with these tokens, and its tenant. Salt and adapter do not affect the index of the
  // entry.
  struct Content {
    BlockId block = kNoBlock;
    uint64_t tenant = 0;
  };

  KvCacheOptions options_;
  int32_t copy_min_tokens_;
  BlockHasher hasher_;
  BlockPool pool_;
  bool verifies_;               // true if blocks with equal keys may have different contents
  std::vector<BlockId> found_;  // blocks that the last call of GetComputedBlocks found
  Table<TokenId> tokens_;       // token ids of the blocks that lookups can find
  // Digest of seed and namespace for each block that is the first of a sequence. Empty if blocks
  // with equal keys always have equal contents, so that lookups need no comparison.
  std::vector<std::array<uint8_t, 32>> namespace_keys_;
  std::vector<Content> contents_;
  KvCacheStats stats_;
};

}  // namespace incipit
