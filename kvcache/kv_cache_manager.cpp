#include "kvcache/kv_cache_manager.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace incipit {
namespace {

// Number of cache blocks per slot of the hash table `contents_`, which finds the first blocks of
// sequences by their tokens.
constexpr size_t kBlocksPerContent = 16;

// While Announce() stores the token ids of a block, it prefetches the memory of the block that is
// kRowsAhead blocks later in the sequence.
constexpr size_t kRowsAhead = 12;

void CopyBlock(std::span<const TokenId> block, std::span<TokenId> stored) {
  // The default block size, in tokens. For this size, the copy of a block's token ids takes only
  // four instructions.
  constexpr size_t kUsualSize = 16;
  if (block.size() == kUsualSize) {
    std::memcpy(stored.data(), block.data(), kUsualSize * sizeof(TokenId));
  } else {
    std::memcpy(stored.data(), block.data(), block.size_bytes());
  }
}

}  // namespace

KvCacheStats& KvCacheStats::operator+=(const KvCacheStats& other) {
  queries += other.queries;
  query_tokens += other.query_tokens;
  hit_tokens += other.hit_tokens;
  copied_tokens += other.copied_tokens;
  self_query_tokens += other.self_query_tokens;
  self_hit_tokens += other.self_hit_tokens;
  stored_blocks += other.stored_blocks;
  loaded_blocks += other.loaded_blocks;
  regret_blocks += other.regret_blocks;
  collisions += other.collisions;
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

KvCacheManager::KvCacheManager(const KvCacheOptions& options, const KvCacheSeams& seams)
    : options_(options),
      copy_min_tokens_(seams.copy_min_tokens > 0 ? seams.copy_min_tokens
                                                 : std::max(2, options.block_size / 4)),
      hasher_({.block_size = options.block_size, .algorithm = options.hash, .seed = options.seed},
              seams.digest_bits),
      pool_({.num_blocks = options.num_blocks,
             .short_digests = DigestBytes(options.hash) < sizeof(BlockHash),
             .policy = options.policy,
             .policy_capacity = options.policy_capacity,
             .block_size =
                 options.policy_block_size > 0 ? options.policy_block_size : options.block_size,
             .retention = options.retention}),
      verifies_(NeedsVerification(options.hash)) {
  INCIPIT_CHECK(ValidateKvCacheOptions(options).ok());
  if (!options.prefix_cache) return;
  const auto num_blocks = static_cast<size_t>(options.num_blocks);
  found_.resize(num_blocks);
  tokens_.resize(num_blocks * static_cast<size_t>(options.block_size));
  contents_.resize(num_blocks / kBlocksPerContent + 1);
  if (verifies_) namespace_keys_.resize(num_blocks);
  if (!options.keeps_chain_origins) return;
  origins_.resize(num_blocks);
  expiring_.resize(num_blocks);
}

int32_t KvCacheManager::BlocksNeeded(const BlockTable& table, const ComputedBlocks& computed,
                                     int32_t num_tokens) const {
  const auto num_held = static_cast<int32_t>(table.blocks.size() + computed.blocks.size());
  return std::max(0, BlocksFor(num_tokens) - num_held) + computed.num_idle;
}

AdmissionPreview KvCacheManager::Preview(const BlockTable& table, const ComputedBlocks& computed,
                                         int32_t num_tokens) const {
  const auto num_held = static_cast<int32_t>(table.blocks.size() + computed.blocks.size());
  const int32_t num_fresh = std::max(0, BlocksFor(num_tokens) - num_held);
  const int32_t num_needed = BlocksNeeded(table, computed, num_tokens);
  const int32_t num_empty = pool_.num_free() - pool_.num_cached_free();
  return {.fits = num_needed <= pool_.num_free(),
          .cached_tokens = computed.num_tokens,
          .blocks_needed = num_needed,
          .blocks_evicted = std::max(0, num_fresh - num_empty)};
}

bool KvCacheManager::AllocateSlots(BlockTable& table, const ComputedBlocks& computed,
                                   int32_t num_tokens) {
  INCIPIT_CHECK(computed.num_tokens == 0 || table.blocks.empty());
  if (BlocksNeeded(table, computed, num_tokens) > pool_.num_free()) return false;
  // Mark the found blocks as used before the call of pool_.Take(), which may evict blocks without
  // users.
  const BlockId source = computed.copy_source;
  const bool begins = table.blocks.empty();
  if (begins) pool_.Use(computed.blocks, table.use);
  if (source != kNoBlock) pool_.Use({&source, 1}, table.use);
  table.blocks.insert(table.blocks.end(), computed.blocks.begin(), computed.blocks.end());
  const auto num_found = static_cast<int32_t>(computed.blocks.size());
  table.num_published += num_found;
  table.num_confirmed += num_found;
  const size_t num_held = table.blocks.size();
  table.blocks.resize(std::max(num_held, static_cast<size_t>(BlocksFor(num_tokens))), kNoBlock);
  pool_.Take(std::span(table.blocks).subspan(num_held));
  if (source == kNoBlock) return true;
  table.copy = {.from = source,
                .to = table.blocks[static_cast<size_t>(num_found)],
                .num_tokens = computed.copy_tokens};
  table.copied_from = pool_.hash(source);
  return true;
}

void KvCacheManager::PrepareAnnounce(BlockTable& table, const SequenceTokens& tokens) {
  if (!options_.prefix_cache || table.collided) return;
  const auto index = static_cast<size_t>(table.num_published);
  const size_t num_full = tokens.size() / static_cast<size_t>(options_.block_size);
  if (index >= num_full || index >= table.blocks.size()) return;
  // The memory of the block is loaded while the hasher computes the key.
  __builtin_prefetch(StoredTokens(table.blocks[index]).data(), 1);
  hasher_.Extend(table.root, tokens, table.hashes);
  pool_.Prefetch(table.blocks[index], table.hashes[index]);
}

void KvCacheManager::Announce(BlockTable& table, const SequenceTokens& tokens) {
  INCIPIT_CHECK(BlocksFor(static_cast<int32_t>(tokens.size())) <=
                static_cast<int32_t>(table.blocks.size()));
  if (!options_.prefix_cache || table.collided) return;
  const auto block_size = static_cast<size_t>(options_.block_size);
  const size_t num_full = tokens.size() / block_size;
  auto index = static_cast<size_t>(table.num_published);
  // Most decode steps fill no block. Return early, because the code below would cause CPU cache
  // misses.
  if (index >= num_full) return;
  hasher_.Extend(table.root, tokens, table.hashes);
  const size_t num_plain = NumPlainBlocks(table.root);
  // If lookups cannot find the previous block, do not make the following blocks findable.
  if (index > 0 && !pool_.is_published(table.blocks[index - 1])) return;
  while (index < num_full) {
    // With sha256 keys, each iteration handles all blocks whose tokens are contiguous in memory.
    // With other keys, each iteration handles one block, and first checks that no block with other
    // contents has its key.
    const auto piece = tokens.From(index * block_size);
    const size_t count = verifies_ ? 1 : std::min(num_full - index, piece.size() / block_size);
    if (verifies_ && IsKeyTaken(table, index, piece.first(block_size))) {
      table.collided = true;
      ++stats_.collisions;
      return;
    }
    const auto ids = std::span(table.blocks).subspan(index, count);
    for (size_t i = 0; i < count; ++i) {
      if (i + kRowsAhead < count) __builtin_prefetch(StoredTokens(ids[i + kRowsAhead]).data(), 1);
      CopyBlock(piece.subspan(i * block_size, block_size), StoredTokens(ids[i]));
    }
    BlockPool::ChainEnd end;
    if (index > 0) {
      end.before = table.blocks[index - 1];
    } else {
      end.chain = BeginChain(table, ids.front(), piece.first(block_size));
    }
    end.num_plain = num_plain > index ? num_plain - index : 0;
    if (options_.keeps_chain_origins) {
      const bool is_expiring = table.retention.time_to_live != Duration::zero();
      for (const BlockId id : ids) expiring_[static_cast<size_t>(id)] = is_expiring;
    }
    pool_.PublishPending(ids, std::span(table.hashes).subspan(index, count), end);
    index += count;
    table.num_published = static_cast<int32_t>(index);
  }
}

// Returns the number of leading blocks of a sequence whose keys depend on no tenant, salt, adapter
// or image.
size_t KvCacheManager::NumPlainBlocks(const ChainRoot& root) const {
  if (!root.is_default_namespace) return 0;
  if (root.media.empty()) return std::numeric_limits<size_t>::max();
  return static_cast<size_t>(root.media.front().token_begin / options_.block_size);
}

void KvCacheManager::CacheBlocks(BlockTable& table, const SequenceTokens& tokens,
                                 int32_t num_computed) {
  INCIPIT_CHECK(num_computed <= static_cast<int32_t>(tokens.size()));
  const auto num_loaded = static_cast<size_t>(std::exchange(table.num_loaded, 0));
  Announce(table, tokens.first(static_cast<size_t>(num_computed)));
  // Count only the blocks of committed steps (batches): table.blocks may also contain blocks of a
  // later step.
  table.num_committed = BlocksFor(num_computed);
  const int32_t num_full = num_computed / options_.block_size;
  const int32_t num_ready = std::min(num_full, table.num_published);
  if (num_ready <= table.num_confirmed) return;
  const auto first = static_cast<size_t>(table.num_confirmed);
  const auto count = static_cast<size_t>(num_ready) - first;
  const auto block_size = static_cast<size_t>(options_.block_size);
  table.num_confirmed = num_ready;
  const BlockPool::Confirmed confirmed =
      pool_.Confirm(std::span(table.blocks).subspan(first, count),
                    tokens.subspan(first * block_size, count * block_size), num_loaded, table.use);
  stats_.stored_blocks += confirmed.num_computed;
  stats_.loaded_blocks += confirmed.num_loaded;
}

void KvCacheManager::ReleaseFrom(BlockTable& table, size_t num_kept) {
  pool_.Release(std::span(table.blocks).subspan(num_kept), table.use);
  table.blocks.resize(num_kept);
  const auto num_left = static_cast<int32_t>(num_kept);
  table.num_published = std::min(table.num_published, num_left);
  table.num_confirmed = std::min(table.num_confirmed, num_left);
  table.num_committed = std::min(table.num_committed, num_left);
}

void KvCacheManager::Rollback(BlockTable& table, int32_t num_tokens_in_flight) {
  const int32_t num_left =
      std::max(table.num_confirmed, num_tokens_in_flight / options_.block_size);
  while (table.num_published > num_left) {
    const BlockId id = table.blocks[static_cast<size_t>(--table.num_published)];
    if (pool_.is_pending(id)) pool_.Withdraw(id);
  }
  const int32_t num_kept = std::max(table.num_committed, BlocksFor(num_tokens_in_flight));
  const bool admitted_by_this_step = num_kept == 0;
  if (admitted_by_this_step) ReleaseCopySource(table);
  ReleaseFrom(table, static_cast<size_t>(num_kept));
  // If an earlier step is in flight, the loaded blocks belong to that step.
  if (num_tokens_in_flight == 0) table.num_loaded = 0;
  if (!admitted_by_this_step) return;
  table.collided = false;
  table.copied_from.reset();
  table.use = {};
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
  child.num_confirmed = std::min(parent.num_confirmed, num_full);
  child.num_committed = static_cast<int32_t>(child.blocks.size());
  child.collided = parent.collided;
  child.copied_from = parent.copied_from;
  child.use = parent.use;
  return true;
}

void KvCacheManager::ReleaseCopySource(BlockTable& table) {
  if (table.copy.from == kNoBlock) return;
  pool_.Release({&table.copy.from, 1}, table.use);
  table.copy = {};
}

void KvCacheManager::Free(BlockTable& table) {
  // The blocks of a sequence are released from last to first. The source block of a planned copy
  // contains the last cached tokens, so release this block before all others.
  ReleaseCopySource(table);
  if (!table.retention.is_default()) {
    const auto num_kept = static_cast<size_t>(table.num_confirmed);
    pool_.Retain(std::span(table.blocks).first(num_kept), table.retention, table.tenant);
  }
  ReleaseFrom(table, 0);
  table.num_loaded = 0;
  table.copied_from.reset();
  table.collided = false;
  table.use = {};
}

void KvCacheManager::Unpublish(const BlockTable& table, int32_t num_tokens) {
  const auto num_full = static_cast<size_t>(num_tokens / options_.block_size);
  for (size_t i = 0; i < std::min(num_full, table.hashes.size()); ++i) {
    pool_.UnpublishTree(table.hashes[i]);
  }
  if (table.copied_from) pool_.UnpublishTree(*table.copied_from);
}

bool KvCacheManager::ResetPrefixCache() {
  if (num_used() > 0) return false;
  pool_.UnpublishAll();
  return true;
}

void KvCacheManager::CountQuery(int32_t num_tokens, int32_t num_hit_tokens,
                                int32_t num_copied_tokens) {
  ++stats_.queries;
  stats_.query_tokens += num_tokens;
  stats_.hit_tokens += num_hit_tokens;
  stats_.copied_tokens += num_copied_tokens;
}

void KvCacheManager::CountSelfQuery(int32_t num_tokens, int32_t num_hit_tokens) {
  stats_.self_query_tokens += num_tokens;
  stats_.self_hit_tokens += num_hit_tokens;
}

KvCacheStats KvCacheManager::TakeStats() {
  KvCacheStats stats = std::exchange(stats_, {});
  stats.evictions = pool_.TakeEvictionStats();
  stats.regret_blocks = pool_.TakeRegret();
  return stats;
}

void KvCacheManager::ReportCached(size_t visits_max) {
  KvEventLog& log = pool_.event_log();
  const bool is_complete = pool_.SweepCached(visits_max, [&](BlockId id) {
    const BlockId parent = pool_.parent(id);
    log.AddStored(pool_.hash(id), parent == kNoBlock ? nullptr : &pool_.hash(parent),
                  StoredTokens(id));
  });
  log.AddMark(is_complete ? KvEvent::Kind::kComplete : KvEvent::Kind::kMoreCached);
}

KvEvents KvCacheManager::Events() {
  if (pool_.event_log().is_lost()) pool_.RestartEvents();
  return pool_.event_log().events();
}

KvSnapshot KvCacheManager::Snapshot() const {
  KvSnapshot snapshot;
  for (const BlockId id : pool_.StoredOrder()) {
    const BlockId parent = pool_.parent(id);
    snapshot.events.push_back({.kind = KvEvent::Kind::kStored,
                               .starts_chain = parent == kNoBlock,
                               .key = pool_.hash(id),
                               .parent = parent == kNoBlock ? BlockHash{} : pool_.hash(parent),
                               .tokens_begin = snapshot.tokens.size()});
    const auto tokens = StoredTokens(id);
    snapshot.tokens.insert(snapshot.tokens.end(), tokens.begin(), tokens.end());
  }
  return snapshot;
}

size_t KvCacheManager::num_metadata_bytes() const {
  return pool_.num_bytes() + found_.capacity() * sizeof(BlockId) +
         contents_.capacity() * sizeof(Content) + origins_.capacity() * sizeof(ChainOrigin) +
         expiring_.capacity();
}

void KvCacheManager::CheckInvariants(std::span<const BlockTable* const> tables) const {
  pool_.CheckInvariants();
  std::vector<int32_t> num_users(static_cast<size_t>(num_blocks()), 0);
  for (const BlockTable* table : tables) {
    for (const BlockId block : table->blocks) ++num_users[static_cast<size_t>(block)];
    if (table->copy.from != kNoBlock) ++num_users[static_cast<size_t>(table->copy.from)];
    INCIPIT_CHECK(table->num_confirmed <= table->num_published);
    INCIPIT_CHECK(table->num_published <= static_cast<int32_t>(table->blocks.size()));
    INCIPIT_CHECK(table->num_committed <= static_cast<int32_t>(table->blocks.size()));
  }
  for (int32_t i = 0; i < num_blocks(); ++i) {
    INCIPIT_CHECK(num_users[static_cast<size_t>(i)] == pool_.num_users(BlockId{i}));
  }
}

}  // namespace incipit
