// A simple and slow cache that keeps whole prefixes in a map. The naive cache makes the same
// decisions as KvCacheManager, except for the choice of blocks to evict. The naive cache reads this
// choice from KvCacheManager and checks it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvcache/kv_cache_manager.h"

namespace incipit {

// The values on which the keys and values of a block depend: the namespace and all tokens from the
// start of the sequence to the end of the block.
struct NaivePrefix {
  int32_t space = 0;  // index of the cache namespace
  std::vector<TokenId> tokens;

  auto operator<=>(const NaivePrefix&) const = default;
  bool StartsWith(const NaivePrefix& other) const;
};

struct NaiveTable {
  int32_t space = 0;
  uint64_t tenant = 0;
  Retention hint;
  std::vector<int32_t> blocks;
  int32_t num_published = 0, num_confirmed = 0, num_committed = 0;
  int32_t copy_source = -1;
  std::optional<NaivePrefix> copied_from;
};

struct NaiveMatch {
  std::vector<int32_t> blocks;  // full blocks
  // Number of tokens after `blocks` that a partial match can copy: the largest number of leading
  // tokens that any cached block shares with the rest of the sequence.
  int32_t copy_tokens = 0;
  // True if at most 16 cached blocks are candidates for the partial match. Only then must the cache
  // find the longest partial match.
  bool copy_is_exact = true;
  // Cached blocks that share exactly `copy_tokens` leading tokens with the rest of the sequence.
  // The cache may copy any of these blocks.
  std::vector<int32_t> sources;
  int32_t num_tokens(int32_t block_size) const {
    return static_cast<int32_t>(blocks.size()) * block_size + copy_tokens;
  }
};

// A cache that keeps whole prefixes in a map. The caller must make each call to KvCacheManager as
// well. error() returns the first difference between both caches.
class NaiveCache {
 public:
  NaiveCache(const KvCacheOptions& options, const KvCacheSeams& seams,
             const KvCacheManager& product);

  NaiveMatch LookUp(std::span<const TokenId> tokens, int32_t space, bool partial) const;
  int32_t BlocksNeeded(const NaiveTable& table, const NaiveMatch& match, int32_t source,
                       int32_t num_tokens) const;
  int32_t BlocksEvicted(int32_t num_fresh) const;

  // Gives `table` the blocks of `match` and the new blocks `fresh`, which KvCacheManager allocated
  // in the same call. `source`: block to copy, or -1. REQUIRES: `table` is empty, or `match` is
  // empty and `source` is -1.
  void Allocate(NaiveTable& table, const NaiveMatch& match, int32_t source,
                std::span<const BlockId> fresh);
  void Announce(NaiveTable& table, std::span<const TokenId> tokens);
  void CacheBlocks(NaiveTable& table, std::span<const TokenId> tokens);
  void Rollback(NaiveTable& table);
  void Fork(const NaiveTable& parent, NaiveTable& child, int32_t num_tokens,
            std::span<const BlockId> fresh);
  void ReleaseCopySource(NaiveTable& table);
  void Free(NaiveTable& table);
  void Unpublish(const NaiveTable& table, std::span<const TokenId> tokens);
  void Reset();
  void EvictTo(int32_t num_cached_max);
  void Advance(Duration now);

  // Compares the state of every block with KvCacheManager.
  void Compare(std::span<const NaiveTable* const> tables);

  int32_t num_free() const;
  int32_t num_cached() const;
  bool WasEvicted(const NaivePrefix& prefix) const { return evicted_.contains(prefix); }
  bool WasPublished(const NaivePrefix& prefix) const { return published_.contains(prefix); }
  bool IsCached(const NaivePrefix& prefix) const { return copies_.contains(prefix); }
  // Returns each prefix that a listener of cache events regards as stored, with its canonical
  // block.
  std::map<NaivePrefix, int32_t> Emitted() const;
  const std::string& error() const { return error_; }

  int64_t num_stored = 0, num_evicted = 0, num_expired = 0, num_reset = 0;
  // num_victims: number of blocks that allocations evicted. num_retained_victims: number of these
  // blocks that had a retention hint.
  int64_t num_victims = 0, num_retained_victims = 0;

 private:
  struct NaiveBlock {
    int32_t num_users = 0;
    std::optional<NaivePrefix> content;  // tokens of a published block
    bool pending = false;
    // Index in groups_ of the retention hint that the block has; -1: none.
    int32_t group = -1;
  };
  struct NaiveGroup {
    Retention hint;
    Duration start{};
    uint64_t tenant = 0;
    int32_t level = 0;
    bool ended = false;
  };

  void Expect(bool condition, const std::string& message);
  NaiveBlock& At(int32_t id) { return blocks_[static_cast<size_t>(id)]; }
  const NaiveBlock& At(int32_t id) const { return blocks_[static_cast<size_t>(id)]; }
  bool is_lru() const { return is_lru_; }
  bool IsCachedFree(int32_t id) const { return At(id).num_users == 0 && At(id).content; }
  bool HasDescendants(const NaivePrefix& prefix) const;
  // Returns true if block `id` may be evicted: block `id` is a duplicate, or no cached block
  // continues its prefix.
  bool MayGo(int32_t id) const;
  void Publish(int32_t id, const NaivePrefix& prefix);
  void Remove(int32_t id);
  // Removes block `id` from the cache. The next block with the same prefix becomes canonical (the
  // block that lookups return) and gets the retention hint of block `id`.
  void Replace(int32_t id);
  void AddUser(int32_t id);
  void Take(int32_t id);
  void JudgeVictim(int32_t id);
  void ReleaseUser(int32_t id);
  void SettleHints();
  void Assign(const NaiveTable& table);
  int32_t LevelOf(const NaiveGroup& group) const;
  // Returns the retention level of block `id`. A block without a retention hint has the default
  // level.
  int32_t LevelAt(int32_t id) const;

  KvCacheOptions options_;
  KvCacheSeams seams_;
  const KvCacheManager& product_;
  bool is_lru_;
  std::vector<NaiveBlock> blocks_;
  // The ids of all cached blocks with the same prefix. The first block is canonical.
  std::map<NaivePrefix, std::vector<int32_t>> copies_;
  std::map<NaivePrefix, bool> evicted_, published_, emitted_;
  std::vector<NaiveGroup> groups_;
  // Free blocks in the order of their release. With the policy `lru`, an allocation takes the first
  // of these blocks that may be evicted. The order is known only while `queue_is_all_` is true. The
  // first retention hint and EvictTo set `queue_is_all_` to false.
  std::vector<int32_t> queue_;
  bool queue_is_all_ = false;
  // [id]: true if block `id` had descendants when the current call started to evict blocks.
  std::vector<bool> had_descendants_;
  Duration now_{};
  std::string error_;
};

}  // namespace incipit
