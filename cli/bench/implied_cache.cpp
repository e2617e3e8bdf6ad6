#include "cli/bench/implied_cache.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/hash/hash.h"
#include "base/check.h"

namespace incipit {
namespace {

// The server compares the next tokens of a prompt with at most this number of cached blocks
// (kvcache/kv_cache_lookup.cpp).
constexpr int32_t kCandidatesMax = 16;

uint64_t HashOf(int32_t parent, std::span<const uint32_t> block) {
  const auto bytes = std::as_bytes(block);
  return absl::HashOf(parent,
                      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

ImpliedCache::ImpliedCache(int32_t block_size, int64_t tokens_max)
    : block_size_(static_cast<size_t>(block_size)),
      blocks_max_(static_cast<size_t>(tokens_max) / block_size_) {
  INCIPIT_CHECK(block_size > 0);
}

std::span<const uint32_t> ImpliedCache::TokensOf(BlockIndex index) const {
  return std::span(tokens_).subspan(static_cast<size_t>(index) * block_size_, block_size_);
}

// Returns the cached block that follows `parent` and has the tokens `block`, or kNone.
ImpliedCache::BlockIndex ImpliedCache::Find(BlockIndex parent,
                                            std::span<const uint32_t> block) const {
  const auto found = by_content_.find(HashOf(parent, block));
  if (found == by_content_.end()) return kNone;
  const BlockIndex index = found->second;
  const bool is_equal = blocks_[static_cast<size_t>(index)].parent == parent &&
                        std::ranges::equal(TokensOf(index), block);
  return is_equal ? index : kNone;
}

int32_t ImpliedCache::NumCached(std::span<const uint32_t> prompt) const {
  BlockIndex parent = kNone;
  size_t num_found = 0;
  while (num_found + block_size_ < prompt.size()) {
    const BlockIndex next = Find(parent, prompt.subspan(num_found, block_size_));
    if (next == kNone) break;
    parent = next;
    num_found += block_size_;
  }
  return static_cast<int32_t>(num_found) + NumCopied(parent, prompt.subspan(num_found));
}

// Returns the newest cached block that follows the block `parent`, or kNone. If `parent` is kNone,
// returns the newest block that has no parent and has the first token `first_token`.
ImpliedCache::BlockIndex ImpliedCache::FirstCandidate(BlockIndex parent,
                                                      uint32_t first_token) const {
  if (parent != kNone) return blocks_[static_cast<size_t>(parent)].first_child;
  const auto found = first_blocks_.find(first_token);
  return found == first_blocks_.end() ? kNone : found->second;
}

// `rest` is the prompt after its last full cached block. Returns how many leading tokens of `rest`
// the server copies from a cached block with the same leading tokens. Returns 0 if fewer than 2
// tokens or a quarter of a block are equal, unless a cached block begins with the whole `rest`.
int32_t ImpliedCache::NumCopied(BlockIndex parent, std::span<const uint32_t> rest) const {
  if (rest.size() < 2) return 0;
  const auto wanted = rest.first(std::min(rest.size(), block_size_));
  size_t num_equal = 0;
  const auto consider = [&](BlockIndex index) {
    const auto [end, unused] = std::ranges::mismatch(wanted, TokensOf(index));
    num_equal = std::max(num_equal, static_cast<size_t>(end - wanted.begin()));
  };
  if (wanted.size() == block_size_) {
    if (const BlockIndex whole = Find(parent, wanted); whole != kNone) consider(whole);
  }
  BlockIndex index = FirstCandidate(parent, wanted.front());
  for (int32_t i = 0; i < kCandidatesMax && index != kNone; ++i) {
    consider(index);
    index = blocks_[static_cast<size_t>(index)].next_sibling;
  }
  const size_t num_needed = std::max<size_t>(block_size_ / 4, 2);
  if (num_equal < num_needed && num_equal != rest.size()) return 0;
  return static_cast<int32_t>(std::min(num_equal, rest.size() - 1));
}

void ImpliedCache::Add(std::span<const uint32_t> tokens) {
  BlockIndex parent = kNone;
  for (size_t begin = 0; begin + block_size_ <= tokens.size(); begin += block_size_) {
    const auto block = tokens.subspan(begin, block_size_);
    if (const BlockIndex found = Find(parent, block); found != kNone) {
      parent = found;
      continue;
    }
    if (blocks_.size() == blocks_max_) {
      is_full_ = true;
      return;
    }
    const auto index = static_cast<BlockIndex>(blocks_.size());
    if (!by_content_.try_emplace(HashOf(parent, block), index).second) return;
    BlockIndex& first = parent == kNone
                            ? first_blocks_.try_emplace(block.front(), kNone).first->second
                            : blocks_[static_cast<size_t>(parent)].first_child;
    const BlockIndex next_sibling = std::exchange(first, index);
    blocks_.push_back({.parent = parent, .first_child = kNone, .next_sibling = next_sibling});
    tokens_.insert(tokens_.end(), block.begin(), block.end());
    parent = index;
  }
}

}  // namespace incipit
