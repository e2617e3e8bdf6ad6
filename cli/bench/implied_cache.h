// Computes how many prompt tokens of a load test a prefix cache without a size limit would find.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace incipit {

// Default maximum number of tokens in an ImpliedCache. With this number of tokens in blocks of 16
// tokens, an ImpliedCache uses about 0.5 GB of memory.
inline constexpr int64_t kImpliedTokensMax = 64'000'000;

// A prefix cache that finds the same tokens of a prompt as the cache of a server that never evicts
// a block. Finds full blocks. Also finds the first tokens of a block if the server would copy their
// keys and values. docs/kv_cache.md describes these rules. Not thread-safe.
class ImpliedCache {
 public:
  // REQUIRES: `block_size`, the number of tokens in a block, is positive.
  explicit ImpliedCache(int32_t block_size, int64_t tokens_max = kImpliedTokensMax);

  // Returns the number of leading tokens of `prompt` that are cached. Never counts the last token,
  // because a server computes at least one token of each prompt.
  int32_t NumCached(std::span<const uint32_t> prompt) const;

  // Adds the full blocks of `tokens`. If the cache would have more than `tokens_max` tokens, adds
  // only the first blocks, and is_full() becomes true.
  void Add(std::span<const uint32_t> tokens);

  // True if Add() has left out a block. NumCached() may then return a number that is too small.
  bool is_full() const { return is_full_; }

 private:
  using BlockIndex = int32_t;
  static constexpr BlockIndex kNone = -1;

  struct Block {
    BlockIndex parent = kNone;       // previous block of the same prompt
    BlockIndex first_child = kNone;  // newest block that follows this block
    // Next older block with the same parent. For blocks without a parent: next older block with the
    // same first token.
    BlockIndex next_sibling = kNone;
  };

  std::span<const uint32_t> TokensOf(BlockIndex index) const;
  BlockIndex Find(BlockIndex parent, std::span<const uint32_t> block) const;
  BlockIndex FirstCandidate(BlockIndex parent, uint32_t first_token) const;
  int32_t NumCopied(BlockIndex parent, std::span<const uint32_t> rest) const;

  const size_t block_size_;
  const size_t blocks_max_;
  bool is_full_ = false;
  std::vector<Block> blocks_;
  std::vector<uint32_t> tokens_;  // the tokens of all blocks, in the order of `blocks_`
  // Index of each block. The key is the hash of the parent and of the tokens of the block. If two
  // blocks have the same hash, only the older block is cached.
  absl::flat_hash_map<uint64_t, BlockIndex> by_content_;
  // Blocks without a parent. Key: first token of the block. Value: newest block with this first
  // token.
  absl::flat_hash_map<uint32_t, BlockIndex> first_blocks_;
};

}  // namespace incipit
