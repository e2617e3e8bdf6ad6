// Assigns the tokens of sequences to the blocks of a paged KV cache, and shares blocks between
// sequences with a common prefix. KvCacheManager handles block ids only, not keys and values.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
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
#include "kvcache/tiers/cached_chunks.h"

namespace incipit {

struct KvCacheOptions {
  int32_t num_blocks = 0;
  int32_t block_size = 16;  // tokens per block: a power of two, at most 256
  HashAlgorithm hash = HashAlgorithm::kSha256;
  // Text that is hashed into every block key. Processes with different seeds compute different
  // keys.
  std::string seed{};
  bool prefix_cache = true;  // false: lookups never find cached blocks
  // false: only whole cached blocks are reused
  bool copy_on_write = true;
  EvictionPolicyKind policy = EvictionPolicyKind::kAdaptive;
  // Number of cached blocks for which the eviction policy allocates its tables; 0: num_blocks.
  int32_t policy_capacity = 0;
  // Tokens per block that the eviction policy assumes; 0: block_size.
  int32_t policy_block_size = 0;
  // True: the cache stores the ChainRoot of each cached sequence, so that EvictChunks can identify
  // chunks. Needs 73 bytes per block.
  bool keeps_chain_origins = false;
  RetentionLimits retention{};
};

// Settings for tests, which make rare cases frequent, such as different blocks with equal keys.
struct KvCacheSeams {
  // Number of bits of each block key that are not set to zero. With few bits, different blocks
  // often have equal keys.
  int32_t digest_bits = kDigestBitsMax;
  // Minimum number of matching tokens for which the first tokens of a cached block are copied. A
  // shorter match is copied only if it reaches the end of the prompt. 0: a quarter of a block, but
  // at least 2 tokens.
  int32_t copy_min_tokens = 0;
};

// Returns INVALID_ARGUMENT if a field of `options` is out of range. The message contains the field,
// its value and the bound.
absl::Status ValidateKvCacheOptions(const KvCacheOptions& options);

// Counters of the prefix cache. A request is counted when its first step is committed. Requests
// that do not read the cache are not counted.
struct KvCacheStats {
  int64_t queries = 0;       // number of requests that looked up their prompt in the cache
  int64_t query_tokens = 0;  // number of prompt tokens that were looked up
  int64_t hit_tokens = 0;    // number of tokens, among query_tokens, that were found in the cache
  // Number of tokens, among hit_tokens, whose keys and values were copied to a new block. Only the
  // first tokens of the found block matched the prompt.
  int64_t copied_tokens = 0;
  // Number of tokens that preempted sequences looked up in the cache when the sequences were
  // resumed.
  int64_t self_query_tokens = 0;
  // Number of tokens that resumed sequences looked up (self_query_tokens) and found in the cache.
  int64_t self_hit_tokens = 0;
  // Number of computed blocks that were added to the prefix cache.
  int64_t stored_blocks = 0;
  // Number of blocks that were loaded from a tier and added to the prefix cache.
  int64_t loaded_blocks = 0;
  // Number of blocks, among stored_blocks, that were computed again soon after their eviction.
  // "Soon" means within about n / 4 further evictions, where n is the number of cache blocks.
  int64_t regret_blocks = 0;
  // Number of times that two blocks with different contents had the same key. Always 0 with sha256
  // keys.
  int64_t collisions = 0;
  EvictionStats evictions;

  KvCacheStats& operator+=(const KvCacheStats& other);
};

// The blocks of one sequence, in the order of the tokens. The scheduler creates the table. Later,
// only KvCacheManager changes the table.
struct BlockTable {
  // A step that computes tokens of the sequence reads the members up to `hashes`. These members lie
  // together, in few cache lines.
  std::vector<BlockId> blocks;  // ids of the blocks of the sequence, in the order of the tokens
  // Number of leading blocks that were found in the cache or added to the cache. Includes blocks
  // whose keys and values are not computed yet.
  int32_t num_published = 0;
  // Number of leading blocks that were found in the cache, or were computed and added to the cache.
  int32_t num_confirmed = 0;
  // Number of leading blocks that contain tokens of committed (finished) steps.
  int32_t num_committed = 0;
  // Number of blocks, after the first `num_confirmed` blocks, that the step in flight loads from a
  // tier. The scheduler sets the number after AllocateSlots(). CacheBlocks(), and Rollback() of the
  // step, set the number to 0.
  int32_t num_loaded = 0;
  // True if a cached block with other contents had the key of a block of this sequence. Later
  // blocks of this sequence are then not added to the cache.
  bool collided = false;
  // A planned copy of the first tokens of a cached block, which the device makes before the next
  // step of the sequence. The source block cannot be evicted until ReleaseCopySource() is called.
  BlockCopy copy;
  SequenceUse use;
  // Keys of the full blocks of the sequence, in the order of the tokens.
  std::vector<BlockHash> hashes;
  std::optional<BlockHash> copied_from{};  // key of the block from which `copy` copies tokens
  // Inputs of the block keys other than the tokens, for example the adapter and the salt.
  ChainRoot root;
  // Number that identifies the tenant of the request (TenantDigest).
  uint64_t tenant = 0;
  Retention retention;
};

struct ComputedBlocks {
  // Full blocks of the longest cached prefix, in the order of the tokens. Valid until the next
  // lookup.
  std::span<const BlockId> blocks;
  // Cached block from which the `copy_tokens` tokens after `blocks` can be copied; kNoBlock: none.
  BlockId copy_source = kNoBlock;
  int32_t copy_tokens = 0;
  int32_t num_tokens = 0;  // number of tokens found: all tokens of `blocks`, plus `copy_tokens`
  // Number of found blocks (`blocks` and `copy_source`) that no sequence uses now.
  int32_t num_idle = 0;
};

// Determines whether a lookup may also return a block of which only the first tokens match.
enum class PartialMatch : uint8_t { kNo, kAllowed };

enum class MissReason : uint8_t {
  kNone,  // all full blocks were found
  // The first missing block was never cached, or was evicted long ago.
  kUnseen,
  kEvicted,         // the first missing block was evicted recently
  kOtherNamespace,  // the same tenant cached the same tokens with another salt or adapter
  // A tier seemed to have the missing blocks, but their load failed or took too long. Only the
  // scheduler sets this reason.
  kLoadFailed,
};

// The reason why a lookup did not find a longer prefix of the prompt.
struct Miss {
  MissReason reason = MissReason::kNone;
  int32_t block = -1;  // index of the first full block that the lookup did not find
  // Index of the first prompt token that differs from the cached prompt with the longest common
  // prefix.
  int32_t differing_token = -1;
  Duration evicted_ago{};  // time since the first missing block was evicted; only for kEvicted
};

// A prediction: whether a waiting sequence fits into the cache now, and how many blocks the
// sequence needs.
struct AdmissionPreview {
  bool fits = false;
  // Number of tokens that were found in the cache, including tokens that must be copied.
  int32_t cached_tokens = 0;
  // Number of further tokens that would be loaded from a tier. Only the scheduler sets this number.
  int32_t loadable_tokens = 0;
  int32_t blocks_needed = 0;  // number of free blocks that the sequence would use
  // Number of cached blocks that would be evicted for the sequence.
  int32_t blocks_evicted = 0;
};

// Assigns tokens to cache blocks and shares blocks between sequences (docs/kv_cache.md). Only the
// engine thread may call the manager, except for the thread-safe functions Fits(), hasher() and
// options(). After construction, only Listen(), Snapshot(), EvictChunks() and
// CheckInvariants() allocate memory.
class KvCacheManager {
 public:
  // REQUIRES: ValidateKvCacheOptions(`options`) returns OK.
  explicit KvCacheManager(const KvCacheOptions& options, const KvCacheSeams& seams = {});

  // Sets the time of the cache to `now`, and evicts blocks whose time to live has passed. REQUIRES:
  // `now` does not decrease between calls.
  void Advance(Time now) { pool_.Advance(now); }

  // Returns the blocks of the longest cached prefix of `tokens`. Never includes the last token,
  // because the model must compute at least one token to produce logits. Changes no block.
  ComputedBlocks GetComputedBlocks(const SequenceTokens& tokens, const BlockTable& table,
                                   PartialMatch partial = PartialMatch::kAllowed);
  // Number of calls of GetComputedBlocks.
  int64_t num_lookups() const { return num_lookups_; }

  // Returns the reason why GetComputedBlocks(`tokens`, `table`), which returned `computed`, found
  // no more blocks.
  Miss ExplainMiss(const SequenceTokens& tokens, const BlockTable& table,
                   const ComputedBlocks& computed) const;

  // Returns the number of free blocks that AllocateSlots with the same arguments needs: new blocks,
  // and blocks of `computed` that have no users yet.
  int32_t BlocksNeeded(const BlockTable& table, const ComputedBlocks& computed,
                       int32_t num_tokens) const;
  // Returns whether AllocateSlots with the same arguments would succeed, and the number of blocks
  // that AllocateSlots would use and evict. Changes nothing.
  AdmissionPreview Preview(const BlockTable& table, const ComputedBlocks& computed,
                           int32_t num_tokens) const;

  // Allocates blocks for the first `num_tokens` tokens of a sequence that reuses the cached blocks
  // `computed`. If a part of a cached block must be copied, sets `table.copy`. Returns false, and
  // changes nothing, if too few blocks are free. REQUIRES: `computed` is empty, or `table` has no
  // blocks.
  [[nodiscard]] bool AllocateSlots(BlockTable& table, const ComputedBlocks& computed,
                                   int32_t num_tokens);

  // If `counts` is true, starts to count the changes of the cache that num_changes() reports;
  // otherwise stops. Each start changes the results of num_changes() for all keys.
  void CountChanges(bool counts) { pool_.CountChanges(counts); }
  // Returns a number that changes when the block with the key `hash` becomes findable or
  // unfindable. The number may also change because of other blocks. REQUIRES: counting was started
  // by CountChanges(true).
  uint32_t num_changes(const BlockHash& hash) const { return pool_.num_changes(hash); }

  // Computes the block keys that Announce() with the same arguments needs, and prefetches the
  // memory that Announce() and CacheBlocks() need for the first of these blocks. If several
  // sequences are prepared before the first of them is announced, their memory is loaded at the
  // same time.
  void PrepareAnnounce(BlockTable& table, const SequenceTokens& tokens);

  // Lets lookups find the blocks that a planned step will fill, so that other sequences of the same
  // step can share these blocks. `tokens` are all tokens that the sequence has after the step.
  void Announce(BlockTable& table, const SequenceTokens& tokens);

  // Lets lookups find the full blocks of the first `num_computed` tokens of the sequence. REQUIRES:
  // the steps that computed these tokens are committed.
  void CacheBlocks(BlockTable& table, const SequenceTokens& tokens, int32_t num_computed);

  // Undoes a failed step: releases the blocks that were added to `table` since the last call of
  // CacheBlocks() or Fork() for `table`. Keeps the blocks of the first `num_tokens_in_flight`
  // tokens, because an older step still computes these tokens. REQUIRES: the caller undoes the
  // steps from the newest to the oldest, and the sequences of one step from the last to the first.
  void Rollback(BlockTable& table, int32_t num_tokens_in_flight = 0);

  // Fills the empty table `child` with the first `num_tokens` tokens of `parent`. The tables share
  // the full blocks. If the last block is only partly full, sets `child.copy`, which plans the copy
  // of this block. Returns false, and changes nothing, if no block is free for the copy.
  [[nodiscard]] bool Fork(const BlockTable& parent, BlockTable& child, int32_t num_tokens);

  // Allows the eviction of the cached block from which `table.copy` has copied tokens. REQUIRES:
  // the step that made the copy is committed.
  void ReleaseCopySource(BlockTable& table);

  // Releases the blocks of `table` from last to first, so that the first blocks of the sequence are
  // evicted last. Keeps table.hashes.
  void Free(BlockTable& table);

  // Removes the blocks of the first `num_tokens` tokens of `table` from the prefix cache, because
  // their contents are wrong. Also removes the cached block from which tokens were copied to
  // `table`, and all blocks that follow a removed block. Other sequences may still use the removed
  // blocks.
  void Unpublish(const BlockTable& table, int32_t num_tokens);

  // Removes all blocks from the prefix cache. Returns false, and changes nothing, if any block has
  // a user.
  [[nodiscard]] bool ResetPrefixCache();

  // Evicts cached blocks without users until at most `num_cached_max` such blocks are left.
  void EvictTo(int32_t num_cached_max) { pool_.EvictTo(num_cached_max); }

  // Counts the prefix lookup of a request that is admitted for the first time: `num_tokens` tokens
  // were looked up, and `num_hit_tokens` were found. `num_copied_tokens` of the found tokens were
  // copied to a new block.
  void CountQuery(int32_t num_tokens, int32_t num_hit_tokens, int32_t num_copied_tokens = 0);
  // Counts the prefix lookup of a sequence that resumes after a preemption: `num_tokens` tokens
  // were looked up, and `num_hit_tokens` were found.
  void CountSelfQuery(int32_t num_tokens, int32_t num_hit_tokens);
  KvCacheStats TakeStats();  // returns the counters since the last call of TakeStats()

  // Starts or restarts a log of cache events (blocks that become findable or unfindable for
  // lookups), and reserves memory for the log. The first event is kRestarted.
  void Listen(const KvEventLogOptions& options) { pool_.Listen(options); }
  void StopListening() { pool_.event_log().Close(); }
  // Adds events for blocks that were cached before Listen() was called, and then the event
  // kMoreCached or kComplete. Visits at most `visits_max` cached blocks. Does nothing if Listen()
  // was not called, or if the log of cache events has lost events.
  void ReportCached(size_t visits_max);
  // Returns the cache events (blocks that became findable or unfindable) since the last call of
  // ClearEvents(). If the log was full and has lost events, restarts the log and returns only the
  // event kRestarted.
  KvEvents Events();
  void ClearEvents() { pool_.event_log().Clear(); }
  // Returns one kStored event for each cached block. Leaves out the blocks that
  // KvEventLogOptions::scope excludes from the log of cache events. Allocates memory.
  KvSnapshot Snapshot() const;

  // Evicts all cached blocks, and returns the chunks of these blocks for which `is_wanted` returns
  // true for the key of the chunk. The order of the chunks is the reverse order of the evictions by
  // the policy. Leaves out chunks with a block that a request with a time to live has computed. The
  // blocks keep their contents on the device. Allocates memory. REQUIRES: no block has a user.
  // KvCacheOptions::keeps_chain_origins is true. No other block was computed with an equal key and
  // other tokens.
  CachedChunks EvictChunks(const ChunkShape& shape,
                           absl::FunctionRef<bool(const BlockHash&)> is_wanted);

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

  // Returns the size of the metadata of all blocks in bytes, without the token ids.
  size_t num_metadata_bytes() const;

  // Aborts the process if the data structures of the cache are inconsistent. `tables` are the block
  // tables of all live sequences. The cost is O(number of blocks), and the call allocates memory.
  void CheckInvariants(std::span<const BlockTable* const> tables) const;

 private:
  int32_t BlocksFor(int32_t num_tokens) const {
    return (num_tokens + options_.block_size - 1) / options_.block_size;
  }
  void ReleaseFrom(BlockTable& table, size_t num_kept);
  size_t NumPlainBlocks(const ChainRoot& root) const;

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
  // Defined in kv_cache_chunks.cpp.
  bool AddChunk(const ChunkShape& shape, BlockId last, int32_t index, BlockId first,
                CachedChunks& out);

  // An entry of the hash table `contents_`, which finds a block that is the first of a sequence.
  // The tokens of the block determine the slot in the table. `block` is the newest block in the
  // slot, and `tenant` is the tenant of the block.
  struct Content {
    BlockId block = kNoBlock;
    uint64_t tenant = 0;
  };

  // The parts of the ChainRoot of a sequence that a ChunkIdentity contains, and the tenant.
  struct ChainOrigin {
    BlockHash parent;
    std::array<uint8_t, 32> digest{};
    uint64_t tenant = 0;
  };

  KvCacheOptions options_;
  int32_t copy_min_tokens_;
  BlockHasher hasher_;
  BlockPool pool_;
  bool verifies_;               // true if blocks with equal keys may have different contents
  std::vector<BlockId> found_;  // blocks that the last call of GetComputedBlocks found
  int64_t num_lookups_ = 0;
  Table<TokenId> tokens_;  // token ids of the blocks that lookups can find
  // Element i: digest of the seed, tenant, salt and adapter of block i, if block i is the first of
  // a sequence. With sha256 keys, the vector has no elements.
  std::vector<std::array<uint8_t, 32>> namespace_keys_;
  std::vector<Content> contents_;
  // Element i belongs to block i, if block i is the first of a sequence. `origins_` and `expiring_`
  // have no elements unless keeps_chain_origins is true.
  std::vector<ChainOrigin> origins_;
  // Element i is 1 if a request with a time to live has computed block i.
  std::vector<uint8_t> expiring_;
  KvCacheStats stats_;
};

}  // namespace incipit
