// A sequence for cache tests. The sequence consists of its tokens and its block table. Its
// functions call the cache in the order in which a scheduler calls the cache.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kvcache/kv_cache_manager.h"

namespace incipit {

class CachedSequence {
 public:
  CachedSequence(KvCacheManager& cache, std::vector<TokenId> prompt,
                 const CacheNamespace& cache_namespace = {})
      : tokens(std::move(prompt)), cache_(cache) {
    table.root = cache.hasher().Root(cache_namespace);
    if (cache.options().prefix_cache) cache.hasher().Extend(table.root, tokens, table.hashes);
  }

  // Looks up the tokens, and allocates the found blocks and blocks for all other tokens. Returns
  // the number of found tokens, or -1 if too few blocks are free.
  int32_t Admit() {
    const ComputedBlocks computed = cache_.GetComputedBlocks(tokens, table);
    const int32_t num_found = computed.num_tokens;
    if (!cache_.AllocateSlots(table, computed, num_tokens())) return -1;
    return num_found;
  }
  // Commits the step that stored the keys and values of all tokens.
  void Commit() {
    cache_.ReleaseCopySource(table);
    cache_.CacheBlocks(table, tokens, num_tokens());
  }
  int32_t AdmitAndCommit() {
    const int32_t num_found = Admit();
    Commit();
    return num_found;
  }
  // Appends one sampled token, allocates its slot and commits its step.
  void Decode(TokenId token) {
    tokens.push_back(token);
    ASSERT_TRUE(cache_.AllocateSlots(table, {}, num_tokens()));
    Commit();
  }
  void Free() { cache_.Free(table); }

  std::vector<int> blocks() const {
    std::vector<int> ids;
    for (const BlockId block : table.blocks) ids.push_back(static_cast<int>(block));
    return ids;
  }
  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }

  std::vector<TokenId> tokens;
  BlockTable table;

 private:
  KvCacheManager& cache_;
};

inline std::vector<int> FreeOrder(const KvCacheManager& cache) {
  std::vector<int> ids;
  for (const BlockId block : cache.pool().FreeOrder()) ids.push_back(static_cast<int>(block));
  return ids;
}

// Returns the `count` tokens first, first + 1, ..., first + count - 1.
inline std::vector<TokenId> TokenRange(TokenId first, int32_t count) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

inline std::vector<TokenId> Concat(std::vector<TokenId> head, const std::vector<TokenId>& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

}  // namespace incipit
