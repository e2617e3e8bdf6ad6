// Decides which block of a paged KV cache holds which tokens, and lets sequences with a common
// prefix share blocks. Deals in block ids only: the bytes belong to the model runner.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/types.h"
#include "kvcache/block_hash.h"
#include "kvcache/block_pool.h"
#include "kvcache/kv_layout.h"

namespace incipit {

enum class EvictionPolicyKind : uint8_t { kLru };

struct KvCacheOptions {
  int32_t num_blocks = 0;
  int32_t block_size = 16;  // tokens; a power of two, 1 to 256
  HashAlgorithm hash = HashAlgorithm::kSha256;
  std::string seed{};        // of the hash chains: equal seeds give equal keys in every process
  bool prefix_cache = true;  // off: blocks are neither found nor published
  EvictionPolicyKind policy = EvictionPolicyKind::kLru;
};

// INVALID_ARGUMENT, naming the field, its value and the bound.
absl::Status ValidateKvCacheOptions(const KvCacheOptions& options);

// Counters, in tokens where not said otherwise. A request counts once, when the first step that
// computes for it is committed; one that asked not to read the cache does not count.
struct KvCacheStats {
  int64_t queries = 0;            // requests
  int64_t query_tokens = 0;       // prompt tokens that were looked up
  int64_t hit_tokens = 0;         // of them, found
  int64_t self_query_tokens = 0;  // the same of sequences that come back after a preemption
  int64_t self_hit_tokens = 0;
  int64_t stored_blocks = 0;  // published
  int64_t evictions = 0;      // published blocks given to somebody else

  KvCacheStats& operator+=(const KvCacheStats& other);
};

// One sequence's blocks, in order. Filled and emptied by KvCacheManager only. `hashes` and `blocks`
// never grow beyond what was reserved for the sequence's longest length.
struct BlockTable {
  BlockHash root;                 // the start of the hash chain: see BlockHasher::Root
  std::vector<BlockHash> hashes;  // of full blocks; the prompt's arrive already computed
  std::vector<BlockId> blocks;    // append-only while the sequence runs
  int32_t num_published = 0;      // leading blocks that were found or published
  int32_t num_committed = 0;      // leading blocks held since the last committed step
  // Must be done before the sequence's next step; its source is held until ReleaseCopySource.
  BlockCopy copy;
};

struct ComputedBlocks {
  std::span<const BlockId> blocks;  // full blocks found, in order; valid until the next lookup
  int32_t num_tokens = 0;           // what they hold
};

// Invariants (CheckInvariants):
//  (1) every block is either used (ref_count > 0) or in the free queue, once;
//  (2) the lengths of the live tables and the copy sources held add up to the reference counts;
//  (3) every entry of the index leads to blocks that carry its hash, and every published block is
//      reached so;
//  (4) the parent of a published block is published, by a copy that is in use or that would be
//      evicted later.
// Threading: one thread, the engine's. Fits, hasher and options read constants and are safe from
// any thread. After construction only Unpublish and CheckInvariants allocate memory.
class KvCacheManager {
 public:
  // REQUIRES: ValidateKvCacheOptions(options) is OK.
  explicit KvCacheManager(const KvCacheOptions& options);

  // The longest computed prefix of `tokens`, at most all but the last of them, which must be
  // computed to obtain logits. Changes nothing.
  ComputedBlocks GetComputedBlocks(std::span<const TokenId> tokens, const BlockTable& table);

  // How many blocks leave the free queue if `computed` is taken and room made for `num_tokens`.
  int32_t BlocksNeeded(const BlockTable& table, const ComputedBlocks& computed,
                       int32_t num_tokens) const;

  // Takes `computed` (into an empty table) and room for the first `num_tokens` tokens of the
  // sequence. All or nothing: false leaves cache and table as they were.
  [[nodiscard]] bool AllocateSlots(BlockTable& table, const ComputedBlocks& computed,
                                   int32_t num_tokens);

  // Publishes the full blocks among the first `num_computed` tokens, which a committed step has
  // stored. The only way a block becomes findable.
  void CacheBlocks(BlockTable& table, std::span<const TokenId> tokens, int32_t num_computed);

  // Gives back what was taken since the last CacheBlocks or Fork: the step did nothing.
  void Rollback(BlockTable& table);

  // Makes the empty `child` hold the first `num_tokens` tokens of `parent`, sharing the full blocks
  // and leaving in child.copy how to fill a partial last one. False, with nothing changed, if there
  // is no block for that.
  [[nodiscard]] bool Fork(const BlockTable& parent, BlockTable& child, int32_t num_tokens);

  // The step that did table.copy is committed.
  void ReleaseCopySource(BlockTable& table);

  // Releases the blocks, last one first, so that a prefix outlives what was built on it. The hashes
  // stay: a preempted sequence looks for its own blocks when it returns.
  void Free(BlockTable& table);

  // No key of the first `num_tokens` tokens, nor any that descends from one, can be found from now
  // on, whoever holds the block. O(blocks): for values that must never be shared again because they
  // are not finite.
  void Unpublish(const BlockTable& table, int32_t num_tokens);

  // Forgets every published block. False, with nothing changed, while any block is in use.
  [[nodiscard]] bool ResetPrefixCache();

  // Once per admitted request, `self` for a sequence that comes back after a preemption.
  void CountQuery(int32_t num_tokens, int32_t num_hit_tokens);
  void CountSelfQuery(int32_t num_tokens, int32_t num_hit_tokens);
  KvCacheStats TakeStats();  // counters since the last call

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

  // Aborts if an invariant is broken. O(blocks); allocates. `tables` are all live ones.
  void CheckInvariants(std::span<const BlockTable* const> tables) const;

 private:
  int32_t BlocksFor(int32_t num_tokens) const {
    return (num_tokens + options_.block_size - 1) / options_.block_size;
  }
  void ReleaseFrom(BlockTable& table, size_t num_kept);

  KvCacheOptions options_;
  BlockHasher hasher_;
  BlockPool pool_;
  std::vector<BlockId> found_;  // what GetComputedBlocks returns a view of
  KvCacheStats stats_;
  int64_t evictions_taken_ = 0;  // of the pool's, already handed out by TakeStats
};

}  // namespace incipit
