// The function of KvCacheManager that returns the chunks of all cached blocks at the end of the
// cache.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "kvcache/kv_cache_manager.h"

namespace incipit {
namespace {

// The position of a cached block in its sequence.
struct Position {
  int32_t index = 0;         // number of the block in the sequence
  BlockId first = kNoBlock;  // first block of the sequence
  int32_t chunk = -1;        // latest chunk that ends before or with the block; -1: none
};

// The value of a chunk for later requests, and the chunk before it in the sequence (-1: none).
struct Rank {
  int32_t value = -1;
  int32_t parent = -1;
};

// Sorts `chunks` by descending value. A chunk is at least as valuable as each chunk that follows it
// in a sequence, because the later chunk is useless without it. REQUIRES: `ranks` has one element
// for each chunk, and each chunk comes after its parent.
void Sort(std::vector<Rank> ranks, std::vector<CachedChunks::Chunk>& chunks) {
  for (size_t i = ranks.size(); i-- > 0;) {
    const int32_t parent = ranks[i].parent;
    if (parent < 0) continue;
    int32_t& value = ranks[static_cast<size_t>(parent)].value;
    value = std::max(value, ranks[i].value);
  }
  std::vector<size_t> order(chunks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // A stable sort keeps each chunk after its parent, also if both have the same value.
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return ranks[i].value; });
  std::vector<CachedChunks::Chunk> sorted;
  sorted.reserve(chunks.size());
  for (const size_t i : order) sorted.push_back(chunks[i]);
  chunks = std::move(sorted);
}

}  // namespace

CachedChunks KvCacheManager::EvictChunks(const ChunkShape& shape,
                                         absl::FunctionRef<bool(const BlockHash&)> is_wanted) {
  INCIPIT_CHECK(options_.keeps_chain_origins && num_used() == 0);
  CachedChunks out;
  if (!options_.prefix_cache) return out;
  const auto per_chunk = static_cast<size_t>(shape.blocks_per_chunk);
  const auto num_tokens = static_cast<size_t>(shape.num_tokens());
  std::vector<Position> positions(static_cast<size_t>(options_.num_blocks));
  std::vector<Rank> ranks;
  std::vector<BlockId> last_blocks;
  for (const BlockId id : pool_.CachedOrder()) {
    Position& position = positions[static_cast<size_t>(id)];
    const BlockId before = pool_.parent(id);
    if (before == kNoBlock) {
      position = {.first = id};
    } else {
      position = positions[static_cast<size_t>(before)];
      ++position.index;
    }
    if ((position.index + 1) % shape.blocks_per_chunk != 0) continue;
    if (!is_wanted(pool_.hash(id))) continue;
    if (!AddChunk(shape, id, position.index, position.first, out)) continue;
    ranks.push_back({.parent = position.chunk});
    last_blocks.push_back(id);
    position.chunk = static_cast<int32_t>(out.chunks.size()) - 1;
  }
  for (size_t i = 0; i < out.chunks.size(); ++i) {
    out.chunks[i].identity.tokens =
        SequenceTokens(std::span(out.tokens).subspan(i * num_tokens, num_tokens));
    INCIPIT_CHECK(out.chunks[i].blocks_begin == i * per_chunk);
  }
  // The eviction policy evicts the most valuable block last.
  std::vector<int32_t> evictions(static_cast<size_t>(options_.num_blocks), -1);
  int32_t num_evicted = 0;
  for (const BlockId id : pool_.EvictAll()) evictions[static_cast<size_t>(id)] = num_evicted++;
  for (size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].value = evictions[static_cast<size_t>(last_blocks[i])];
  }
  Sort(std::move(ranks), out.chunks);
  return out;
}

// Appends the chunk with the last block `last` to `out`, without the view of its tokens. `index` is
// the number of `last` in its sequence, and `first` is the first block of the sequence. Returns
// false if a client asked that one of the blocks expires.
bool KvCacheManager::AddChunk(const ChunkShape& shape, BlockId last, int32_t index, BlockId first,
                              CachedChunks& out) {
  const auto per_chunk = static_cast<size_t>(shape.blocks_per_chunk);
  const ChainOrigin& origin = origins_[static_cast<size_t>(first)];
  CachedChunks::Chunk chunk;
  chunk.blocks_begin = out.blocks.size();
  out.blocks.resize(chunk.blocks_begin + per_chunk);
  const auto blocks = std::span(out.blocks).subspan(chunk.blocks_begin);
  BlockId id = last;
  for (size_t i = per_chunk; i-- > 0; id = pool_.parent(id)) {
    blocks[i] = id;
    if (!expiring_[static_cast<size_t>(id)]) continue;
    out.blocks.resize(chunk.blocks_begin);
    return false;
  }
  const int32_t first_index = index + 1 - shape.blocks_per_chunk;
  chunk.identity = {.key = pool_.hash(last),
                    .parent = first_index == 0 ? origin.parent : pool_.hash(id),
                    .first_token = int64_t{first_index} * options_.block_size,
                    .namespace_digest = origin.digest,
                    .tenant = origin.tenant,
                    .tokens = {}};
  for (const BlockId block : blocks) {
    const auto tokens = StoredTokens(block);
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
  }
  out.chunks.push_back(chunk);
  return true;
}

}  // namespace incipit
