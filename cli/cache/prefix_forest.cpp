#include "cli/cache/prefix_forest.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace incipit {
namespace {

constexpr size_t kNone = std::numeric_limits<size_t>::max();

// The position of a chunk in its prefix.
struct Node {
  size_t root = kNone;  // index of the root
  uint64_t depth = 1;   // number of chunks from the root to this chunk
  uint64_t num_children = 0;
  size_t last_child = kNone;
};

// Returns the number of chunks from `root` until a chunk that not exactly one chunk follows.
uint64_t NumShared(const std::vector<Node>& nodes, size_t root) {
  uint64_t count = 1;
  for (size_t i = root; nodes[i].num_children == 1; i = nodes[i].last_child) ++count;
  return count;
}

StoredPrefix PrefixOf(const StoredChunk& root) {
  return {.key = root.key,
          .first_token = root.first_token,
          .tenant = root.tenant,
          .oldest_s = root.created_s,
          .newest_s = root.created_s};
}

void Add(const StoredChunk& chunk, const Node& node, StoredPrefix& prefix) {
  ++prefix.num_chunks;
  prefix.num_longest = std::max(prefix.num_longest, node.depth);
  prefix.has_several_tenants |= chunk.tenant != prefix.tenant;
  prefix.hits_max = std::max(prefix.hits_max, chunk.hits);
  prefix.oldest_s = std::min(prefix.oldest_s, chunk.created_s);
  prefix.newest_s = std::max(prefix.newest_s, chunk.created_s);
  if (chunk.expires_s == 0) return;
  prefix.next_expiry_s =
      prefix.next_expiry_s == 0 ? chunk.expires_s : std::min(prefix.next_expiry_s, chunk.expires_s);
}

}  // namespace

std::vector<StoredPrefix> GroupByPrefix(const std::vector<StoredChunk>& chunks) {
  absl::flat_hash_map<uint64_t, size_t> by_key;
  by_key.reserve(chunks.size());
  std::vector<StoredChunk> distinct;
  distinct.reserve(chunks.size());
  for (const StoredChunk& chunk : chunks) {
    const auto [found, is_new] = by_key.try_emplace(chunk.key, distinct.size());
    if (is_new) {
      distinct.push_back(chunk);
    } else {
      distinct[found->second] = chunk;
    }
  }
  // A chunk follows another chunk only if its first token has a higher position. So damaged files
  // cannot cause a cycle, and a parent always precedes its children in the sorted list.
  std::ranges::stable_sort(distinct, {}, &StoredChunk::first_token);
  for (size_t i = 0; i < distinct.size(); ++i) by_key[distinct[i].key] = i;
  std::vector<Node> nodes(distinct.size());
  for (size_t i = 0; i < distinct.size(); ++i) {
    nodes[i].root = i;
    const auto parent = by_key.find(distinct[i].parent);
    if (parent == by_key.end()) continue;
    const size_t p = parent->second;
    if (distinct[p].first_token >= distinct[i].first_token) continue;
    nodes[i].root = nodes[p].root;
    nodes[i].depth = nodes[p].depth + 1;
    ++nodes[p].num_children;
    nodes[p].last_child = i;
  }
  std::vector<StoredPrefix> prefixes;
  std::vector<size_t> prefix_of(distinct.size(), kNone);
  for (size_t i = 0; i < distinct.size(); ++i) {
    const size_t root = nodes[i].root;
    if (root == i) {
      prefix_of[i] = prefixes.size();
      prefixes.push_back(PrefixOf(distinct[i]));
      prefixes.back().num_shared = NumShared(nodes, i);
    }
    Add(distinct[i], nodes[i], prefixes[prefix_of[root]]);
  }
  return prefixes;
}

}  // namespace incipit
