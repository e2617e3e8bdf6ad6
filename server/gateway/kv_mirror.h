// A list of all blocks in the prefix cache, built from the events of the engine. Snapshots for
// gateways are made from this list, so that no snapshot delays the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "base/types.h"
#include "engine/cache_reporter.h"

namespace incipit {

// Returns the number that identifies the block with the key `key` in messages to gateways.
inline int64_t WireHash(const BlockHash& key) { return static_cast<int64_t>(key.prefix()); }

// The values that a message to a gateway contains about a cached block.
struct KvBlockView {
  int64_t hash = 0;
  // Hash of the previous block of the prompt; absent for the first block.
  std::optional<int64_t> parent{};
  std::span<const TokenId> tokens;
};

// A list of the blocks that are in the prefix cache according to the engine's events. The memory is
// proportional to the largest number of blocks since the last Clear.
class KvMirror {
 public:
  explicit KvMirror(int32_t block_size) : block_size_(static_cast<size_t>(block_size)) {}

  // Adds a cached block to the KvMirror. `event` is the kStored event of the block, and `tokens`
  // are the tokens of the block. Returns false if the KvMirror already contains the block.
  // REQUIRES: the KvMirror contains the previous block of the prompt, if any.
  bool Store(const KvEvent& event, std::span<const TokenId> tokens);
  // Removes the block with the key `key`. Returns false if the KvMirror does not contain the block.
  bool Remove(const BlockHash& key);
  // Removes all blocks and frees the memory of the blocks.
  void Clear();

  size_t size() const { return slots_.size(); }
  size_t block_size() const { return block_size_; }
  // Calls `visit` for each block. The parent of a block (the previous block of the prompt) is
  // visited before the block.
  void ForEach(absl::FunctionRef<void(const KvBlockView&)> visit) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct KeyHash {
    size_t operator()(const BlockHash& key) const { return key.prefix(); }
  };
  // A block in a doubly linked list, which has the order of the calls of Store. A parent is stored
  // before its children and removed after its children. Therefore, each block follows its parent in
  // the list.
  struct Node {
    int64_t hash = 0, parent = 0;
    bool starts_chain = false;
    uint32_t previous = kNone, next = kNone;
  };
  std::span<TokenId> TokensOf(uint32_t slot) {
    return std::span(tokens_).subspan(slot * block_size_, block_size_);
  }

  size_t block_size_;
  absl::flat_hash_map<BlockHash, uint32_t, KeyHash> slots_;  // index of each block in `nodes_`
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // tokens of all elements of `nodes_`
  std::vector<uint32_t> free_;   // indexes of unused elements of `nodes_`
  uint32_t first_ = kNone, last_ = kNone;
};

}  // namespace incipit
