// Computes how many prompt tokens of a load test a prefix cache without a size limit finds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace incipit {

// Default limit of the number of tokens in an ImpliedCache, which bounds its memory to about 0.5 GB
// with blocks of 16 tokens.
inline constexpr int64_t kImpliedTokensMax = 64'000'000;

// A prefix cache of token ids with the rules of the server (docs/kv_cache.md): the cache finds full
// blocks, and the first tokens of a block where the server copies these tokens. Never evicts a
// block. Not thread-safe.
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

  // True if the cache has left out a block. NumCached() may then return too small numbers.
  bool is_full() const { return is_full_; }

 private:
  using BlockIndex = int32_t;
  static constexpr BlockIndex kNone = -1;

  struct Block {
    BlockIndex parent = kNone;        // previous block of the same prompt
    BlockIndex first_child = kNone;   // newest block that follows this block
    BlockIndex next_sibling = kNone;  // next older block with the same list of siblings
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
  // The blocks by the hash of the previous block and of their own tokens. If two blocks have the
  // same hash, only the first block is cached.
  absl::flat_hash_map<uint64_t, BlockIndex> by_content_;
  // The newest first block of a prompt, by its first token.
  absl::flat_hash_map<uint32_t, BlockIndex> first_blocks_;
};

}  // namespace incipit
