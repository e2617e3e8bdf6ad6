// The lookup functions of KvCacheManager: find blocks, compare contents and explain misses.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kvcache/kv_cache_manager.h"

namespace incipit {
namespace {

// FindPartial() searches a list of cached blocks. The search ends after this number of blocks.
constexpr int32_t kPartialCandidatesMax = 16;

int32_t NumEqual(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto [end, unused] = std::ranges::mismatch(a, b);
  return static_cast<int32_t>(end - a.begin());
}

uint64_t Mixed(uint64_t value) {  // the final mixing function of the splitmix64 generator
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

std::span<TokenId> KvCacheManager::StoredTokens(BlockId id) {
  const auto block_size = static_cast<size_t>(options_.block_size);
  return {tokens_.data() + static_cast<size_t>(id) * block_size, block_size};
}

std::span<const TokenId> KvCacheManager::StoredTokens(BlockId id) const {
  const auto block_size = static_cast<size_t>(options_.block_size);
  return {tokens_.data() + static_cast<size_t>(id) * block_size, block_size};
}

uint64_t KvCacheManager::ChainTag(const BlockTable& table, TokenId first) const {
  return Mixed(BlockHash{table.root.digest}.prefix() + static_cast<uint32_t>(first));
}

size_t KvCacheManager::ContentSlot(std::span<const TokenId> block) const {
  uint64_t mixed = 0;
  for (const TokenId token : block) mixed = Mixed(mixed + static_cast<uint32_t>(token) + 1);
  return static_cast<size_t>((mixed >> 32) * contents_.size() >> 32);
}

// Returns whether `before` is the previous block of the cached block `id`. If `before` is kNoBlock,
// returns whether `id` is the first block of a sequence.
bool KvCacheManager::Follows(BlockId id, BlockId before) const {
  return before == kNoBlock ? pool_.starts_chain(id) : pool_.parent(id) == before;
}

// Returns true if the cached block `id` has the contents of block number `index` of the sequence of
// `table`: the tokens `block` after the cached block `before`. REQUIRES: the key of block `id` has
// the digest of block number `index`. With sha256 keys, equal digests mean equal contents.
bool KvCacheManager::Holds(BlockId id, BlockId before, size_t index, std::span<const TokenId> block,
                           const BlockTable& table) const {
  if (!verifies_) return true;
  if (pool_.hash(id) != table.hashes[index] || !Follows(id, before)) return false;
  if (!std::ranges::equal(StoredTokens(id), block)) return false;
  return index > 0 || namespace_keys_[static_cast<size_t>(id)] == table.root.digest;
}

ComputedBlocks KvCacheManager::GetComputedBlocks(const SequenceTokens& tokens,
                                                 const BlockTable& table, PartialMatch partial) {
  ++num_lookups_;
  if (!options_.prefix_cache || tokens.empty()) return {};
  const auto block_size = static_cast<size_t>(options_.block_size);
  const auto findable = tokens.first(tokens.size() - 1);
  const size_t num_candidates =
      std::min({findable.size() / block_size, table.hashes.size(), found_.size()});
  const auto hashes = std::span(table.hashes).first(num_candidates);
  BlockPool::Chain chain = pool_.FindChain(hashes, found_);
  if (verifies_) {
    const size_t num_verified = NumVerified(findable, table, chain.blocks);
    if (num_verified < chain.blocks.size()) {
      ++stats_.collisions;
      chain = pool_.FindChain(hashes.first(num_verified), found_);
    }
  }
  const auto found = chain.blocks;
  ComputedBlocks computed = {.blocks = found,
                             .num_tokens = static_cast<int32_t>(found.size()) * options_.block_size,
                             .num_idle = chain.num_idle};
  const size_t num_left = tokens.size() - found.size() * block_size;
  const bool is_allowed = options_.copy_on_write && partial == PartialMatch::kAllowed;
  if (!is_allowed || num_left < 2) return computed;
  const PartialHit hit = FindPartial(tokens.From(found.size() * block_size), table, found);
  if (!IsWorthCopying(hit, num_left)) return computed;
  computed.copy_source = hit.block;
  computed.copy_tokens = std::min(hit.num_tokens, static_cast<int32_t>(num_left) - 1);
  computed.num_tokens += computed.copy_tokens;
  computed.num_idle += pool_.num_users(hit.block) == 0;
  return computed;
}

// Returns true if the device should copy the keys and values of the first tokens of a cached block.
// These tokens match the next tokens of a sequence. The match must have at least copy_min_tokens_
// tokens, or all `num_left` remaining tokens of the sequence.
bool KvCacheManager::IsWorthCopying(const PartialHit& hit, size_t num_left) const {
  return static_cast<size_t>(hit.num_tokens) == num_left || hit.num_tokens >= copy_min_tokens_;
}

// Returns the number of leading blocks of `found` that have the same contents as the first blocks
// of the sequence. The keys of these blocks are equal, but only sha256 keys guarantee equal
// contents.
size_t KvCacheManager::NumVerified(const SequenceTokens& tokens, const BlockTable& table,
                                   std::span<const BlockId> found) const {
  const auto block_size = static_cast<size_t>(options_.block_size);
  for (size_t i = 0; i < found.size(); ++i) {
    const BlockId before = i == 0 ? kNoBlock : found[i - 1];
    const auto block = tokens.From(i * block_size).first(block_size);
    if (!Holds(found[i], before, i, block, table)) return i;
  }
  return found.size();
}

// `rest` are the tokens of a sequence after its cached blocks `found`. Searches the cached blocks
// that directly follow the last block of `found`. Returns the block that begins with the most
// tokens of `rest`. Ignores blocks that are not computed yet.
KvCacheManager::PartialHit KvCacheManager::FindPartial(std::span<const TokenId> rest,
                                                       const BlockTable& table,
                                                       std::span<const BlockId> found) const {
  const auto wanted = rest.first(std::min(rest.size(), static_cast<size_t>(options_.block_size)));
  PartialHit best;
  if (wanted.empty()) return best;
  const auto consider = [&](BlockId id) {
    if (pool_.is_pending(id)) return;
    const int32_t num_equal = NumEqual(wanted, StoredTokens(id));
    if (num_equal <= best.num_tokens) return;
    if (!HasKeyOf(id, found, table)) return;
    best = {.block = id, .num_tokens = num_equal};
  };
  // First examine the block that has the key of the next full block of the sequence.
  if (found.size() < table.hashes.size()) {
    const BlockId whole = pool_.Find(table.hashes[found.size()]);
    const BlockId before = found.empty() ? kNoBlock : found.back();
    if (whole != kNoBlock && Follows(whole, before)) consider(whole);
  }
  BlockId id = found.empty() ? pool_.first_of_chains(ChainTag(table, wanted.front()))
                             : pool_.first_child(found.back());
  for (int32_t i = 0; i < kPartialCandidatesMax && id != kNoBlock; ++i) {
    if (best.num_tokens == static_cast<int32_t>(wanted.size())) break;
    consider(id);
    id = pool_.next_sibling(id);
  }
  return best;
}

// Returns true if block `id` can follow the blocks `found` in the sequence of `table`. Computes the
// key that the tokens of `id` have in this sequence, and compares it with the key of `id`. Equal
// tokens do not suffice, because the key also depends on the tenant, salt, adapter and images.
bool KvCacheManager::HasKeyOf(BlockId id, std::span<const BlockId> found,
                              const BlockTable& table) const {
  const size_t index = found.size();
  if (index == 0 && verifies_ && namespace_keys_[static_cast<size_t>(id)] != table.root.digest) {
    return false;
  }
  const BlockHash& parent = index == 0 ? table.root.parent : table.hashes[index - 1];
  return hasher_.KeyAt(table.root, index, parent, StoredTokens(id)) == pool_.hash(id);
}

Miss KvCacheManager::ExplainMiss(const SequenceTokens& tokens, const BlockTable& table,
                                 const ComputedBlocks& computed) const {
  const size_t index = computed.blocks.size();
  const auto block_size = static_cast<size_t>(options_.block_size);
  if (!options_.prefix_cache || (index + 1) * block_size >= tokens.size()) return {};
  Miss miss = {.reason = MissReason::kUnseen, .block = static_cast<int32_t>(index)};
  miss.differing_token = computed.num_tokens;
  if (computed.copy_source == kNoBlock) {
    const auto rest = tokens.From(index * block_size);
    miss.differing_token += FindPartial(rest, table, computed.blocks).num_tokens;
  }
  if (index >= table.hashes.size()) return miss;
  if (const auto when = pool_.evicted_keys().Find(table.hashes[index].prefix())) {
    miss.reason = MissReason::kEvicted;
    miss.evicted_ago = std::chrono::milliseconds(pool_.now_ms() - *when);
  } else if (index == 0) {
    const auto first = tokens.From(0).first(block_size);
    const Content& content = contents_[ContentSlot(first)];
    const bool same = content.block != kNoBlock && content.tenant == table.tenant &&
                      pool_.is_published(content.block) && pool_.starts_chain(content.block) &&
                      std::ranges::equal(StoredTokens(content.block), first);
    if (same) miss.reason = MissReason::kOtherNamespace;
  }
  return miss;
}

// Returns true if a cached block has the same key as block number `index` of the sequence of
// `table`, but other contents. `block` are the tokens of block number `index`.
bool KvCacheManager::IsKeyTaken(const BlockTable& table, size_t index,
                                std::span<const TokenId> block) const {
  const BlockId holder = pool_.Find(table.hashes[index]);
  if (holder == kNoBlock) return false;
  const BlockId before = index > 0 ? pool_.Find(table.hashes[index - 1]) : kNoBlock;
  return !Holds(holder, before, index, block, table);
}

// Records that block `id` is the first block of a sequence. Returns a hash of the tenant, salt,
// adapter and first token of the sequence.
uint64_t KvCacheManager::BeginChain(const BlockTable& table, BlockId id,
                                    std::span<const TokenId> block) {
  contents_[ContentSlot(block)] = {.block = id, .tenant = table.tenant};
  if (verifies_) namespace_keys_[static_cast<size_t>(id)] = table.root.digest;
  if (options_.keeps_chain_origins) {
    origins_[static_cast<size_t>(id)] = {
        .parent = table.root.parent, .digest = table.root.digest, .tenant = table.tenant};
  }
  return ChainTag(table, block.front());
}

}  // namespace incipit
