#include "kvcache/kv_cache_manager.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace incipit {

KvCacheStats& KvCacheStats::operator+=(const KvCacheStats& other) {
  queries += other.queries;
  query_tokens += other.query_tokens;
  hit_tokens += other.hit_tokens;
  self_query_tokens += other.self_query_tokens;
  self_hit_tokens += other.self_hit_tokens;
  stored_blocks += other.stored_blocks;
  evictions += other.evictions;
  return *this;
}

absl::Status ValidateKvCacheOptions(const KvCacheOptions& options) {
  if (options.num_blocks < 1 || options.num_blocks > kBlocksMax) {
    return InvalidArgument("num_blocks is {}; it must be from 1 to {}", options.num_blocks,
                           kBlocksMax);
  }
  if (options.block_size < 1 || options.block_size > kBlockSizeMax ||
      !std::has_single_bit(static_cast<uint32_t>(options.block_size))) {
    return InvalidArgument("block_size is {}; it must be a power of two from 1 to {}",
                           options.block_size, kBlockSizeMax);
  }
  return absl::OkStatus();
}

KvCacheManager::KvCacheManager(const KvCacheOptions& options)
    : options_(options), hasher_(options.block_size, options.seed), pool_(options.num_blocks) {
  INCIPIT_CHECK(ValidateKvCacheOptions(options).ok());
  found_.reserve(static_cast<size_t>(options.num_blocks));
}

ComputedBlocks KvCacheManager::GetComputedBlocks(std::span<const TokenId> tokens,
                                                 const BlockTable& table) {
  found_.clear();
  if (!options_.prefix_cache || tokens.empty()) return {};
  const size_t num_full_max = (tokens.size() - 1) / static_cast<size_t>(options_.block_size);
  const size_t num_candidates = std::min(num_full_max, table.hashes.size());
  for (size_t i = 0; i < num_candidates; ++i) {
    const BlockId block = pool_.Find(table.hashes[i]);
    if (block == kNoBlock) break;
    found_.push_back(block);
  }
  return {.blocks = found_,
          .num_tokens = static_cast<int32_t>(found_.size()) * options_.block_size};
}

int32_t KvCacheManager::BlocksNeeded(const BlockTable& table, const ComputedBlocks& computed,
                                     int32_t num_tokens) const {
  const auto num_held = static_cast<int32_t>(table.blocks.size() + computed.blocks.size());
  int32_t num_needed = std::max(0, BlocksFor(num_tokens) - num_held);
  for (const BlockId block : computed.blocks) num_needed += pool_.num_users(block) == 0;
  return num_needed;
}

bool KvCacheManager::AllocateSlots(BlockTable& table, const ComputedBlocks& computed,
                                   int32_t num_tokens) {
  INCIPIT_CHECK(computed.blocks.empty() || table.blocks.empty());
  if (BlocksNeeded(table, computed, num_tokens) > pool_.num_free()) return false;
  // What is found leaves the queue before anything is taken from it.
  for (const BlockId block : computed.blocks) {
    pool_.AddUser(block);
    table.blocks.push_back(block);
  }
  table.num_published += static_cast<int32_t>(computed.blocks.size());
  while (static_cast<int32_t>(table.blocks.size()) < BlocksFor(num_tokens)) {
    table.blocks.push_back(pool_.Take());
  }
  return true;
}

void KvCacheManager::CacheBlocks(BlockTable& table, std::span<const TokenId> tokens,
                                 int32_t num_computed) {
  INCIPIT_CHECK(num_computed <= static_cast<int32_t>(tokens.size()));
  INCIPIT_CHECK(BlocksFor(num_computed) <= static_cast<int32_t>(table.blocks.size()));
  table.num_committed = static_cast<int32_t>(table.blocks.size());
  if (!options_.prefix_cache) return;
  hasher_.Extend(table.root, tokens.first(static_cast<size_t>(num_computed)), table.hashes);
  const int32_t num_full = num_computed / options_.block_size;
  for (int32_t i = table.num_published; i < num_full; ++i) {
    // Where the block before has been unpublished, what builds on it is not published either.
    if (i > 0 && !pool_.is_published(table.blocks[i - 1])) return;
    pool_.Publish(table.blocks[i], {.hash = table.hashes[i],
                                    .parent = i == 0 ? table.root : table.hashes[i - 1],
                                    .starts_chain = i == 0});
    ++table.num_published;
    ++stats_.stored_blocks;
  }
}

void KvCacheManager::ReleaseFrom(BlockTable& table, size_t num_kept) {
  while (table.blocks.size() > num_kept) {
    pool_.RemoveUser(table.blocks.back());
    table.blocks.pop_back();
  }
  const auto num_left = static_cast<int32_t>(table.blocks.size());
  table.num_published = std::min(table.num_published, num_left);
  table.num_committed = std::min(table.num_committed, num_left);
}

void KvCacheManager::Rollback(BlockTable& table) {
  ReleaseFrom(table, static_cast<size_t>(table.num_committed));
}

bool KvCacheManager::Fork(const BlockTable& parent, BlockTable& child, int32_t num_tokens) {
  INCIPIT_CHECK(child.blocks.empty());
  INCIPIT_CHECK(BlocksFor(num_tokens) <= static_cast<int32_t>(parent.blocks.size()));
  const int32_t num_full = num_tokens / options_.block_size;
  const int32_t num_partial = num_tokens % options_.block_size;
  if (num_partial > 0 && pool_.num_free() == 0) return false;
  for (int32_t i = 0; i < num_full; ++i) {
    pool_.AddUser(parent.blocks[i]);
    child.blocks.push_back(parent.blocks[i]);
  }
  if (num_partial > 0) {
    const BlockId source = parent.blocks[num_full];
    pool_.AddUser(source);
    child.blocks.push_back(pool_.Take());
    child.copy = {.from = source, .to = child.blocks.back(), .num_tokens = num_partial};
  }
  child.num_published = std::min(parent.num_published, num_full);
  child.num_committed = static_cast<int32_t>(child.blocks.size());
  return true;
}

void KvCacheManager::ReleaseCopySource(BlockTable& table) {
  if (table.copy.from == kNoBlock) return;
  pool_.RemoveUser(table.copy.from);
  table.copy = {};
}

void KvCacheManager::Free(BlockTable& table) {
  ReleaseCopySource(table);  // before the blocks that it was built on
  ReleaseFrom(table, 0);
}

void KvCacheManager::Unpublish(const BlockTable& table, int32_t num_tokens) {
  const auto num_full = static_cast<size_t>(num_tokens / options_.block_size);
  std::vector<BlockHash> doomed(table.hashes.begin(),
                                table.hashes.begin() + std::min(num_full, table.hashes.size()));
  if (doomed.empty()) return;
  // Published blocks by the tag of their parent, to walk from a key to what descends from it.
  std::unordered_multimap<uint64_t, BlockHash> children;
  for (int32_t i = 0; i < pool_.num_blocks(); ++i) {
    const BlockId id{i};
    if (!pool_.is_published(id) || pool_.starts_chain(id)) continue;
    children.emplace(pool_.parent_tag(id), pool_.hash(id));
  }
  while (!doomed.empty()) {
    const BlockHash key = doomed.back();
    doomed.pop_back();
    for (BlockId id = pool_.Find(key); id != kNoBlock; id = pool_.Find(key)) pool_.Unpublish(id);
    const auto [begin, end] = children.equal_range(key.prefix());
    for (auto it = begin; it != end; ++it) doomed.push_back(it->second);
    children.erase(begin, end);
  }
}

bool KvCacheManager::ResetPrefixCache() {
  if (num_used() > 0) return false;
  pool_.UnpublishAll();
  return true;
}

void KvCacheManager::CountQuery(int32_t num_tokens, int32_t num_hit_tokens) {
  ++stats_.queries;
  stats_.query_tokens += num_tokens;
  stats_.hit_tokens += num_hit_tokens;
}

void KvCacheManager::CountSelfQuery(int32_t num_tokens, int32_t num_hit_tokens) {
  stats_.self_query_tokens += num_tokens;
  stats_.self_hit_tokens += num_hit_tokens;
}

KvCacheStats KvCacheManager::TakeStats() {
  KvCacheStats stats = std::exchange(stats_, {});
  stats.evictions = pool_.num_evictions() - std::exchange(evictions_taken_, pool_.num_evictions());
  return stats;
}

void KvCacheManager::CheckInvariants(std::span<const BlockTable* const> tables) const {
  pool_.CheckInvariants();
  std::vector<int32_t> num_users(static_cast<size_t>(num_blocks()), 0);
  for (const BlockTable* table : tables) {
    for (const BlockId block : table->blocks) ++num_users[static_cast<size_t>(block)];
    if (table->copy.from != kNoBlock) ++num_users[static_cast<size_t>(table->copy.from)];
    INCIPIT_CHECK(table->num_published <= static_cast<int32_t>(table->blocks.size()));
    INCIPIT_CHECK(table->num_committed <= static_cast<int32_t>(table->blocks.size()));
  }
  for (int32_t i = 0; i < num_blocks(); ++i) {
    INCIPIT_CHECK(num_users[static_cast<size_t>(i)] == pool_.num_users(BlockId{i}));
  }

  // The published keys that are in use or further back in the queue than the block looked at.
  std::unordered_set<uint64_t> outliving;
  for (int32_t i = 0; i < num_blocks(); ++i) {
    const BlockId id{i};
    if (pool_.is_published(id) && pool_.num_users(id) > 0)
      outliving.insert(pool_.hash(id).prefix());
  }
  const auto has_parent = [&](BlockId id) {
    return pool_.starts_chain(id) || outliving.contains(pool_.parent_tag(id));
  };
  for (int32_t i = 0; i < num_blocks(); ++i) {
    const BlockId id{i};
    if (pool_.is_published(id) && pool_.num_users(id) > 0) INCIPIT_CHECK(has_parent(id));
  }
  const std::vector<BlockId> queue = pool_.FreeOrder();
  for (auto it = queue.rbegin(); it != queue.rend(); ++it) {
    if (!pool_.is_published(*it)) continue;
    INCIPIT_CHECK(has_parent(*it));
    outliving.insert(pool_.hash(*it).prefix());
  }
}

}  // namespace incipit
