#include "tests/kvcache/naive_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace incipit {
namespace {

// Maximum number of cached blocks among which the cache must find the longest partial match (a
// match that ends within a block).
constexpr int32_t kCandidatesMax = 16;
constexpr int32_t kDefaultLevel = 5, kPinned = 11;

int32_t Level(const Retention& hint, Duration age, Duration duration_max) {
  if (age < std::min(hint.pin, duration_max)) return kPinned;
  const int32_t over = hint.priority - 50;
  if (over < 0) return hint.priority / 10;
  if (over > 0) return kDefaultLevel + (over + 9) / 10;
  if (hint.time_to_live == Duration::zero()) return kDefaultLevel;
  return age < hint.time_to_live / 2 ? kDefaultLevel + 1 : kDefaultLevel - 1;
}

NaivePrefix PrefixOf(int32_t space, std::span<const TokenId> tokens, size_t num_tokens) {
  return {.space = space, .tokens = {tokens.begin(), tokens.begin() + num_tokens}};
}

int32_t NumCommon(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<int32_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

bool NaivePrefix::StartsWith(const NaivePrefix& other) const {
  return space == other.space && tokens.size() >= other.tokens.size() &&
         std::equal(other.tokens.begin(), other.tokens.end(), tokens.begin());
}

NaiveCache::NaiveCache(const KvCacheOptions& options, const KvCacheSeams& seams,
                       const KvCacheManager& product)
    : options_(options),
      seams_(seams),
      product_(product),
      is_lru_(options.policy == EvictionPolicyKind::kLru),
      blocks_(static_cast<size_t>(options.num_blocks)),
      queue_is_all_(is_lru_),
      had_descendants_(blocks_.size()) {
  for (int32_t id = 0; id < options.num_blocks; ++id) queue_.push_back(id);
}

void NaiveCache::Expect(bool condition, const std::string& message) {
  if (!condition && error_.empty()) error_ = message;
}

int32_t NaiveCache::num_free() const {
  return static_cast<int32_t>(std::ranges::count(blocks_, 0, &NaiveBlock::num_users));
}

int32_t NaiveCache::num_cached() const {
  int32_t count = 0;
  for (int32_t id = 0; id < options_.num_blocks; ++id) count += IsCachedFree(id);
  return count;
}

NaiveMatch NaiveCache::LookUp(std::span<const TokenId> tokens, int32_t space, bool partial) const {
  NaiveMatch match;
  if (!options_.prefix_cache || tokens.empty()) return match;
  const auto block_size = static_cast<size_t>(options_.block_size);
  const size_t num_findable = tokens.size() - 1;
  for (size_t end = block_size; end <= num_findable; end += block_size) {
    const auto it = copies_.find(PrefixOf(space, tokens, end));
    if (it == copies_.end()) break;
    match.blocks.push_back(it->second.front());
  }
  if (!options_.copy_on_write || !partial) return match;
  const size_t num_found = match.blocks.size() * block_size;
  const auto rest = tokens.subspan(num_found);
  int32_t num_candidates = 0;
  for (const auto& [prefix, ids] : copies_) {
    if (prefix.tokens.size() != num_found + block_size) continue;
    // For the first block of a sequence, the cache may search the blocks of all namespaces. Blocks
    // of other namespaces are therefore also counted as candidates.
    num_candidates += num_found == 0;
    if (prefix.space != space) continue;
    if (NumCommon(prefix.tokens, tokens) < static_cast<int32_t>(num_found)) continue;
    num_candidates += num_found > 0;
    if (At(ids.front()).pending) continue;
    const int32_t common = NumCommon(std::span(prefix.tokens).subspan(num_found), rest);
    if (common == 0 || common < match.copy_tokens) continue;
    if (common > match.copy_tokens) match.sources.clear();
    match.copy_tokens = common;
    match.sources.push_back(ids.front());
  }
  match.copy_is_exact = num_candidates <= kCandidatesMax;
  const bool all = match.copy_tokens == static_cast<int32_t>(rest.size());
  match.copy_tokens -= all;  // at least the last token must be computed
  const int32_t asked = seams_.copy_min_tokens;
  const int32_t min_tokens = asked > 0 ? asked : std::max(2, options_.block_size / 4);
  if (match.copy_tokens > 0 && (all || match.copy_tokens >= min_tokens)) return match;
  match.copy_tokens = 0;
  match.sources.clear();
  return match;
}

int32_t NaiveCache::BlocksNeeded(const NaiveTable& table, const NaiveMatch& match, int32_t source,
                                 int32_t num_tokens) const {
  const int32_t num_blocks = (num_tokens + options_.block_size - 1) / options_.block_size;
  const auto num_held = static_cast<int32_t>(table.blocks.size() + match.blocks.size());
  int32_t num_needed = std::max(0, num_blocks - num_held);
  for (const int32_t id : match.blocks) num_needed += At(id).num_users == 0;
  if (source >= 0) num_needed += At(source).num_users == 0;
  return num_needed;
}

// Returns the number of cached blocks that an allocation of `num_fresh` new blocks evicts. All
// policies except `lru` first allocate the blocks that no lookup can find.
int32_t NaiveCache::BlocksEvicted(int32_t num_fresh) const {
  return std::max(0, num_fresh - (num_free() - num_cached()));
}

std::map<NaivePrefix, int32_t> NaiveCache::Emitted() const {
  std::map<NaivePrefix, int32_t> emitted;
  for (const auto& [prefix, unused] : emitted_) emitted[prefix] = copies_.at(prefix).front();
  return emitted;
}

bool NaiveCache::HasDescendants(const NaivePrefix& prefix) const {
  // In the map, the prefixes that start with `prefix` directly follow `prefix`.
  const auto next = copies_.upper_bound(prefix);
  return next != copies_.end() && next->first.StartsWith(prefix);
}

bool NaiveCache::MayGo(int32_t id) const {
  const NaivePrefix& prefix = *At(id).content;
  return copies_.at(prefix).size() > 1 || !HasDescendants(prefix);
}

void NaiveCache::Publish(int32_t id, const NaivePrefix& prefix) {
  NaiveBlock& block = At(id);
  Expect(!block.content && block.num_users > 0, "published a block that is cached or not in use");
  block.content = prefix;
  block.pending = true;
  copies_[prefix].push_back(id);
  published_[prefix] = true;
}

void NaiveCache::Remove(int32_t id) {
  NaiveBlock& block = At(id);
  const auto it = copies_.find(*block.content);
  std::erase(it->second, id);
  if (it->second.empty()) {
    emitted_.erase(*block.content);
    copies_.erase(it);
  }
  block.content.reset();
  block.pending = false;
  block.group = -1;
}

void NaiveCache::Replace(int32_t id) {
  const std::vector<int32_t>& ids = copies_.at(*At(id).content);
  const auto level_of = [&](int32_t group) {
    const bool alive = group >= 0 && !groups_[static_cast<size_t>(group)].ended;
    return alive ? groups_[static_cast<size_t>(group)].level : -1;
  };
  if (ids.front() == id) {
    const int32_t hint = At(id).group;
    int32_t& heirs = At(ids[1]).group;
    if (level_of(hint) >= 0 && level_of(hint) >= level_of(heirs)) heirs = hint;
  }
  Remove(id);
}

void NaiveCache::Allocate(NaiveTable& table, const NaiveMatch& match, int32_t source,
                          std::span<const BlockId> fresh) {
  for (const int32_t id : match.blocks) {
    AddUser(id);
    table.blocks.push_back(id);
  }
  if (source >= 0) {
    AddUser(source);
    table.copy_source = source;
    table.copied_from = At(source).content;
  }
  table.num_published += static_cast<int32_t>(match.blocks.size());
  table.num_confirmed += static_cast<int32_t>(match.blocks.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    had_descendants_[i] = blocks_[i].content && HasDescendants(*blocks_[i].content);
  }
  for (const BlockId id : fresh) {
    Take(static_cast<int32_t>(id));
    table.blocks.push_back(static_cast<int32_t>(id));
  }
  SettleHints();
}

void NaiveCache::AddUser(int32_t id) {
  ++At(id).num_users;
  std::erase(queue_, id);
}

void NaiveCache::Take(int32_t id) {
  NaiveBlock& block = At(id);
  Expect(block.num_users == 0, fmt::format("an allocation took block {}, which is in use", id));
  const auto may_go = [&](int32_t other) { return !At(other).content || MayGo(other); };
  const auto first = std::ranges::find_if(queue_, may_go);
  Expect(!queue_is_all_ || (first != queue_.end() && *first == id),
         "an allocation did not take the first block that may be evicted");
  std::erase(queue_, id);
  if (block.content) JudgeVictim(id);
  if (block.content) {
    evicted_[*block.content] = true;
    ++num_evicted;
    Remove(id);
  }
  block.num_users = 1;
}

int32_t NaiveCache::LevelOf(const NaiveGroup& group) const {
  return Level(group.hint, now_ - group.start, options_.retention.duration_max);
}

int32_t NaiveCache::LevelAt(int32_t id) const {
  const NaiveBlock& block = At(id);
  return block.group < 0 ? kDefaultLevel : groups_[static_cast<size_t>(block.group)].level;
}

// Checks that block `id` was evicted in the right order: after all blocks that continue its prefix,
// after all blocks that lookups cannot find, and before all blocks of a higher retention level. The
// level of a retained block with descendants is not checked, because the block may have lost its
// retention hint.
void NaiveCache::JudgeVictim(int32_t id) {
  const bool uncertain = had_descendants_[static_cast<size_t>(id)];
  const int32_t level = LevelAt(id);
  Expect(MayGo(id), fmt::format("block {} was evicted before its descendants", id));
  ++num_victims;
  num_retained_victims += level != kDefaultLevel;
  for (int32_t other = 0; other < options_.num_blocks; ++other) {
    if (other == id || At(other).num_users > 0) continue;
    if (!At(other).content) {
      const bool in_order = is_lru_ && (level <= kDefaultLevel || uncertain);
      Expect(in_order, "a cached block was evicted before a block that lookups cannot find");
      continue;
    }
    if (uncertain || had_descendants_[static_cast<size_t>(other)] || !MayGo(other)) continue;
    Expect(level <= LevelAt(other),
           fmt::format("a block of level {} was evicted before a block of level {}", level,
                       LevelAt(other)));
  }
}

// Reads from KvCacheManager which retained blocks have lost their retention hint. A block may lose
// its hint only if an attempt to evict the block found that it had descendants.
void NaiveCache::SettleHints() {
  for (int32_t id = 0; id < options_.num_blocks; ++id) {
    NaiveBlock& block = At(id);
    if (block.num_users > 0 || block.group < 0) continue;
    if (product_.pool().is_retained(BlockId{id})) continue;
    Expect(had_descendants_[static_cast<size_t>(id)],
           fmt::format("block {} lost its retention hint", id));
    block.group = -1;
  }
}

void NaiveCache::Announce(NaiveTable& table, std::span<const TokenId> tokens) {
  if (!options_.prefix_cache) return;
  const auto num_full = static_cast<int32_t>(tokens.size()) / options_.block_size;
  for (; table.num_published < num_full; ++table.num_published) {
    const auto index = static_cast<size_t>(table.num_published);
    if (index > 0 && !At(table.blocks[index - 1]).content) return;
    const size_t end = (index + 1) * static_cast<size_t>(options_.block_size);
    Publish(table.blocks[index], PrefixOf(table.space, tokens, end));
  }
}

void NaiveCache::CacheBlocks(NaiveTable& table, std::span<const TokenId> tokens) {
  Announce(table, tokens);
  table.num_committed = static_cast<int32_t>(table.blocks.size());
  const auto num_full = static_cast<int32_t>(tokens.size()) / options_.block_size;
  for (; table.num_confirmed < std::min(num_full, table.num_published); ++table.num_confirmed) {
    const int32_t id = table.blocks[static_cast<size_t>(table.num_confirmed)];
    NaiveBlock& block = At(id);
    if (!block.content) continue;  // the block was unpublished after it was announced
    block.pending = false;
    ++num_stored;
    // The canonical block of a prefix is the block that lookups return. Except with `lru`, a new
    // block becomes the canonical block if no sequence uses the present canonical block.
    const int32_t first = copies_.at(*block.content).front();
    const NaivePrefix parent = PrefixOf(
        table.space, tokens,
        static_cast<size_t>(table.num_confirmed) * static_cast<size_t>(options_.block_size));
    const bool is_stored = parent.tokens.empty() || emitted_.contains(parent);
    if (first == id && is_stored) emitted_[*block.content] = true;
    if (!is_lru_ && first != id && At(first).num_users == 0) Replace(first);
  }
}

void NaiveCache::Rollback(NaiveTable& table) {
  while (table.num_published > table.num_confirmed) {
    const int32_t id = table.blocks[static_cast<size_t>(--table.num_published)];
    if (!At(id).content) continue;
    const NaivePrefix prefix = *At(id).content;
    Remove(id);
    if (copies_.contains(prefix)) continue;
    // No other block has the prefix of the removed block. Lookups therefore cannot find the blocks
    // that continue this prefix, so these are removed too.
    for (int32_t other = 0; other < options_.num_blocks; ++other) {
      const NaiveBlock& block = At(other);
      if (block.content && block.content->StartsWith(prefix)) Remove(other);
    }
  }
  if (table.num_committed == 0) ReleaseCopySource(table);
  if (table.num_committed == 0) table.copied_from.reset();
  while (static_cast<int32_t>(table.blocks.size()) > table.num_committed) {
    ReleaseUser(table.blocks.back());
    table.blocks.pop_back();
  }
  table.num_published = std::min(table.num_published, table.num_committed);
  table.num_confirmed = std::min(table.num_confirmed, table.num_committed);
}

void NaiveCache::Fork(const NaiveTable& parent, NaiveTable& child, int32_t num_tokens,
                      std::span<const BlockId> fresh) {
  const int32_t num_full = num_tokens / options_.block_size;
  NaiveMatch match;
  match.blocks.assign(parent.blocks.begin(), parent.blocks.begin() + num_full);
  const bool partial = num_tokens % options_.block_size > 0;
  const int32_t source = partial ? parent.blocks[static_cast<size_t>(num_full)] : -1;
  Allocate(child, match, source, fresh);
  child.num_published = std::min(parent.num_published, num_full);
  child.num_confirmed = std::min(parent.num_confirmed, num_full);
  child.num_committed = static_cast<int32_t>(child.blocks.size());
  child.copied_from = parent.copied_from;
}

void NaiveCache::ReleaseCopySource(NaiveTable& table) {
  if (table.copy_source >= 0) ReleaseUser(std::exchange(table.copy_source, -1));
}

void NaiveCache::ReleaseUser(int32_t id) {
  NaiveBlock& block = At(id);
  Expect(block.num_users > 0, "released a block that has no user");
  if (--block.num_users > 0) return;
  queue_.push_back(id);
  if (block.group >= 0 && groups_[static_cast<size_t>(block.group)].ended) block.group = -1;
  if (!block.content || is_lru_) return;
  // If two blocks have the same prefix, the released block is removed, unless the other block is
  // still pending.
  const std::vector<int32_t>& ids = copies_.at(*block.content);
  if (ids.size() == 1 || (ids.front() == id && At(ids[1]).pending)) return;
  Replace(id);
}

void NaiveCache::Free(NaiveTable& table) {
  ReleaseCopySource(table);
  if (!table.hint.is_default()) Assign(table);
  while (!table.blocks.empty()) {
    ReleaseUser(table.blocks.back());
    table.blocks.pop_back();
  }
  table.num_published = table.num_confirmed = table.num_committed = 0;
  table.copied_from.reset();
}

void NaiveCache::Assign(const NaiveTable& table) {
  queue_is_all_ = false;
  NaiveGroup group = {.hint = table.hint, .start = now_, .tenant = table.tenant};
  group.level = LevelOf(group);
  const auto is_above = [&](const NaiveBlock& block) {
    if (block.group < 0) return false;
    const NaiveGroup& own = groups_[static_cast<size_t>(block.group)];
    return !own.ended && own.tenant == table.tenant && own.level > kDefaultLevel;
  };
  const auto share = static_cast<int64_t>(options_.retention.tenant_share_max *
                                          static_cast<double>(options_.num_blocks));
  groups_.push_back(group);
  for (int32_t i = 0; i < table.num_confirmed; ++i) {
    NaiveBlock& block = At(table.blocks[static_cast<size_t>(i)]);
    if (!block.content) break;
    const bool has_hint = block.group >= 0 && !groups_[static_cast<size_t>(block.group)].ended;
    if (has_hint && groups_[static_cast<size_t>(block.group)].level > group.level) continue;
    const bool adds = group.level > kDefaultLevel && !is_above(block);
    if (adds && std::ranges::count_if(blocks_, is_above) >= share) break;
    block.group = static_cast<int32_t>(groups_.size()) - 1;
  }
}

void NaiveCache::Unpublish(const NaiveTable& table, std::span<const TokenId> tokens) {
  const auto block_size = static_cast<size_t>(options_.block_size);
  std::vector<NaivePrefix> doomed;
  if (options_.prefix_cache && tokens.size() >= block_size) {
    doomed.push_back(PrefixOf(table.space, tokens, block_size));
  }
  if (table.copied_from) doomed.push_back(*table.copied_from);
  for (int32_t id = 0; id < options_.num_blocks; ++id) {
    for (const NaivePrefix& prefix : doomed) {
      if (At(id).content && At(id).content->StartsWith(prefix)) Remove(id);
    }
  }
}

void NaiveCache::Reset() {
  for (int32_t id = 0; id < options_.num_blocks; ++id) {
    if (!At(id).content) continue;
    ++num_reset;
    Remove(id);
  }
}

// Reads from KvCacheManager which blocks EvictTo evicted. Checks the number of these blocks, but
// not the order of their eviction.
void NaiveCache::EvictTo(int32_t num_cached_max) {
  queue_is_all_ = false;
  std::vector<int32_t> gone;
  for (int32_t id = 0; id < options_.num_blocks; ++id) {
    had_descendants_[static_cast<size_t>(id)] = At(id).content && HasDescendants(*At(id).content);
    if (IsCachedFree(id) && !product_.pool().is_published(BlockId{id})) gone.push_back(id);
  }
  const int32_t num_expected = std::max(0, num_cached() - num_cached_max);
  Expect(static_cast<int32_t>(gone.size()) == num_expected,
         "EvictTo evicted a wrong number of blocks");
  for (const int32_t id : gone) evicted_[*At(id).content] = true;
  num_evicted += static_cast<int64_t>(gone.size());
  for (const int32_t id : gone) Remove(id);
  for (const auto& [prefix, ids] : copies_) {
    const NaivePrefix parent =
        PrefixOf(prefix.space, prefix.tokens,
                 prefix.tokens.size() - static_cast<size_t>(options_.block_size));
    Expect(parent.tokens.empty() || copies_.contains(parent),
           "EvictTo evicted a parent before its child");
  }
  SettleHints();
}

void NaiveCache::Advance(Duration now) {
  now_ = now;
  for (NaiveGroup& group : groups_) {
    if (group.ended) continue;
    group.level = LevelOf(group);
    const Duration life = group.hint.time_to_live;
    const bool expired = life > Duration::zero() && now - group.start >= life;
    group.ended = expired || group.level == kDefaultLevel;
  }
  std::vector<int32_t> gone;
  for (int32_t id = 0; id < options_.num_blocks; ++id) {
    NaiveBlock& block = At(id);
    if (!IsCachedFree(id) || block.group < 0) continue;
    const NaiveGroup& group = groups_[static_cast<size_t>(block.group)];
    if (!group.ended) continue;
    const Duration life = group.hint.time_to_live;
    const bool expired = life > Duration::zero() && now - group.start >= life;
    if (product_.pool().is_published(BlockId{id})) {
      Expect(!expired || HasDescendants(*block.content),
             fmt::format("block {} is cached after its time to live", id));
      block.group = -1;
    } else {
      Expect(expired, fmt::format("block {} was evicted before its time to live passed", id));
      gone.push_back(id);
    }
  }
  num_expired += static_cast<int64_t>(gone.size());
  for (const int32_t id : gone) {
    evicted_[*At(id).content] = true;
    Remove(id);
  }
}

void NaiveCache::Compare(std::span<const NaiveTable* const> tables) {
  const BlockPool& pool = product_.pool();
  std::vector<int32_t> num_users(blocks_.size());
  for (const NaiveTable* table : tables) {
    for (const int32_t id : table->blocks) ++num_users[static_cast<size_t>(id)];
    if (table->copy_source >= 0) ++num_users[static_cast<size_t>(table->copy_source)];
  }
  for (int32_t i = 0; i < options_.num_blocks; ++i) {
    const BlockId id{i};
    const NaiveBlock& block = At(i);
    const auto expect_equal = [&](int32_t actual, int32_t expected, const char* what) {
      Expect(actual == expected,
             fmt::format("block {}: {} is {}, not {}", i, what, actual, expected));
    };
    expect_equal(block.num_users, num_users[static_cast<size_t>(i)],
                 "the number of users in block tables");
    expect_equal(pool.num_users(id), block.num_users, "the number of users");
    expect_equal(pool.is_published(id), block.content.has_value(), "being published");
    expect_equal(pool.is_pending(id), block.pending, "being pending");
    const bool retained = block.num_users == 0 && block.group >= 0;
    expect_equal(pool.is_retained(id), retained, "being retained");
  }
  Expect(product_.num_free() == num_free(), "the number of free blocks differs between the caches");
  Expect(product_.num_cached() == num_cached(),
         "the number of cached blocks differs between the caches");
  Expect(pool.num_keys() == static_cast<int32_t>(copies_.size()),
         "the number of keys differs between the caches");
  for (const auto& [prefix, ids] : copies_) {
    Expect(pool.Find(pool.hash(BlockId{ids.front()})) == BlockId{ids.front()},
           "a lookup returns a block that is not canonical");
  }
}

}  // namespace incipit
