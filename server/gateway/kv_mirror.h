// A copy of the prefix cache's contents, built from the events of the engine. Snapshots for
// subscribers are made from the copy, so no snapshot delays the engine.
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

// Returns the number that names a block with the key `key` in messages to gateways.
inline int64_t WireHash(const BlockHash& key) { return static_cast<int64_t>(key.prefix()); }

// A cached block, as messages to gateways describe a block.
struct KvBlockView {
  int64_t hash = 0;
  std::optional<int64_t> parent{};  // hash of the previous block; absent for the first block
  std::span<const TokenId> tokens;
};

// The cached blocks that the events have reported. The memory is proportional to the largest number
// of blocks since the last Clear.
class KvMirror {
 public:
  explicit KvMirror(int32_t block_size) : block_size_(static_cast<size_t>(block_size)) {}

  // Adds the block of the kStored event `event` with the tokens `tokens`. Returns false if the
  // mirror already has the block. REQUIRES: the mirror has the parent of the block.
  bool Store(const KvEvent& event, std::span<const TokenId> tokens);
  // Removes the block `key`. Returns false if the mirror does not have the block.
  bool Remove(const BlockHash& key);
  // Removes all blocks and frees their memory.
  void Clear();

  size_t size() const { return slots_.size(); }
  size_t block_size() const { return block_size_; }
  // Calls `visit` for each block, each block after its parent.
  void ForEach(absl::FunctionRef<void(const KvBlockView&)> visit) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct KeyHash {
    size_t operator()(const BlockHash& key) const { return key.prefix(); }
  };
  // A block. The blocks form a list in the order of Store. A parent is stored before its children
  // and removed after them, so each block follows its parent in the list.
  struct Node {
    int64_t hash = 0, parent = 0;
    bool starts_chain = false;
    uint32_t previous = kNone, next = kNone;
  };
  std::span<TokenId> TokensOf(uint32_t slot) {
    return std::span(tokens_).subspan(slot * block_size_, block_size_);
  }

  size_t block_size_;
  absl::flat_hash_map<BlockHash, uint32_t, KeyHash> slots_;  // index in `nodes_` of each block
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // tokens of all nodes
  std::vector<uint32_t> free_;   // indexes of unused nodes
  uint32_t first_ = kNone, last_ = kNone;
};

}  // namespace incipit
