// A cache that keeps whole prefixes in a map: slow, and plainly right. It makes every decision of
// the product's anew but one: which block is given up, which it is told and judges.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvcache/kv_cache_manager.h"

namespace incipit {

// All that the keys and values of its last block depend on.
struct NaivePrefix {
  int32_t space = 0;  // the namespace
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
  std::vector<int32_t> blocks;   // full ones
  int32_t copy_tokens = 0;       // the most that any block after them has in common
  bool copy_is_exact = true;     // so few blocks come into question that the most must be found
  std::vector<int32_t> sources;  // every block with just so many
  int32_t num_tokens(int32_t block_size) const {
    return static_cast<int32_t>(blocks.size()) * block_size + copy_tokens;
  }
};

// Whoever calls it does the same with the product. The first thing that is wrong is in error().
class NaiveCache {
 public:
  NaiveCache(const KvCacheOptions& options, const KvCacheSeams& seams,
             const KvCacheManager& product);

  NaiveMatch LookUp(std::span<const TokenId> tokens, int32_t space, bool partial) const;
  int32_t BlocksNeeded(const NaiveTable& table, const NaiveMatch& match, int32_t source,
                       int32_t num_tokens) const;
  int32_t BlocksEvicted(int32_t num_fresh) const;

  // `table` was empty, or `match` and `source` are; `fresh` are the blocks that the product took.
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

  // Compares all that the product tells of its blocks.
  void Compare(std::span<const NaiveTable* const> tables);

  int32_t num_free() const;
  int32_t num_cached() const;
  bool WasEvicted(const NaivePrefix& prefix) const { return evicted_.contains(prefix); }
  bool WasPublished(const NaivePrefix& prefix) const { return published_.contains(prefix); }
  bool IsCached(const NaivePrefix& prefix) const { return copies_.contains(prefix); }
  // What listeners know to be stored, and a block that holds it.
  std::map<NaivePrefix, int32_t> Emitted() const;
  const std::string& error() const { return error_; }

  int64_t num_stored = 0, num_evicted = 0, num_expired = 0, num_reset = 0;
  int64_t num_victims = 0, num_retained_victims = 0;  // that were chosen, and that had a wish

 private:
  struct NaiveBlock {
    int32_t num_users = 0;
    std::optional<NaivePrefix> content;  // of a published block
    bool pending = false;
    int32_t group = -1;  // in groups_: what was asked for it
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
  // Neither a duplicate nor the last copy of what others descend from.
  bool MayGo(int32_t id) const;
  void Publish(int32_t id, const NaivePrefix& prefix);
  void Remove(int32_t id);
  // The next copy, in use, takes its place and its wish.
  void Replace(int32_t id);
  void AddUser(int32_t id);
  void Take(int32_t id);
  void JudgeVictim(int32_t id);
  void ReleaseUser(int32_t id);
  void SettleHints();
  void Assign(const NaiveTable& table);
  int32_t LevelOf(const NaiveGroup& group) const;
  // The level of a free block, the default one's if nothing (certain) was asked for it.
  int32_t LevelAt(int32_t id) const;

  KvCacheOptions options_;
  KvCacheSeams seams_;
  const KvCacheManager& product_;
  bool is_lru_;
  std::vector<NaiveBlock> blocks_;
  std::map<NaivePrefix, std::vector<int32_t>> copies_;  // the first answers
  std::map<NaivePrefix, bool> evicted_, published_, emitted_;
  std::vector<NaiveGroup> groups_;
  // Under `lru` whoever stands in front goes first; until something was asked for, or given up
  // beforehand, this is the whole order.
  std::vector<int32_t> queue_;
  bool queue_is_all_ = false;
  std::vector<bool> had_descendants_;  // when the victims of this call began to be chosen
  Duration now_{};
  std::string error_;
};

}  // namespace incipit
