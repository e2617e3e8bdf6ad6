// Every block's metadata, the queue of those without a user, and the index of those that can be
// found. Knows nothing of sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "kvcache/block_hash.h"
#include "kvcache/block_index.h"

namespace incipit {

// A block is in the free queue if and only if nobody uses it, whether it is published or not.
// Taking one takes the front of the queue, which is what was freed longest ago. Duplicates stay:
// blocks that carry the same key form a list, of which the first published answers; when it goes,
// the next takes its place.
class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t num_free() const { return num_free_; }
  int32_t num_cached_free() const { return num_cached_free_; }
  int32_t num_keys() const { return index_.size(); }

  BlockId Find(const BlockHash& hash) const;

  // Takes the front of the queue for one user; what it held can no longer be found.
  // REQUIRES: num_free() > 0.
  BlockId Take();
  void AddUser(BlockId id);
  // The last user's leaving puts the block at the back of the queue.
  void RemoveUser(BlockId id);

  struct Key {
    BlockHash hash;
    BlockHash parent;           // of the block before, or the chain's root
    bool starts_chain = false;  // the latter
  };
  // REQUIRES: `id` is in use and not published.
  void Publish(BlockId id, const Key& key);
  // REQUIRES: `id` is published.
  void Unpublish(BlockId id);
  // REQUIRES: every block is free. The queue keeps its order.
  void UnpublishAll();

  bool is_published(BlockId id) const { return At(id).published; }
  bool starts_chain(BlockId id) const { return At(id).starts_chain; }
  int32_t num_users(BlockId id) const { return At(id).num_users; }
  const BlockHash& hash(BlockId id) const { return At(id).hash; }
  uint64_t parent_tag(BlockId id) const { return At(id).parent_tag; }
  int64_t num_evictions() const { return num_evictions_; }  // since the start

  // The free blocks in the order in which they would be taken. Allocates.
  std::vector<BlockId> FreeOrder() const;
  // Aborts if queue, index or lists of duplicates contradict each other. Allocates.
  void CheckInvariants() const;

 private:
  // One cache line.
  struct alignas(64) Block {
    BlockHash hash;
    uint64_t parent_tag = 0;               // first bytes of the parent's key
    BlockId prev{-1}, next{-1};            // in the free queue
    BlockId prev_same{-1}, next_same{-1};  // ring of published blocks with this key, by age
    int32_t num_users = 0;
    bool published = false;
    bool answers = false;  // the one of its key that the index leads to: the oldest
    bool starts_chain = false;
  };

  Block& At(BlockId id) { return blocks_[static_cast<size_t>(id)]; }
  const Block& At(BlockId id) const { return blocks_[static_cast<size_t>(id)]; }
  void PushBack(BlockId id);
  void Unlink(BlockId id);

  std::vector<Block> blocks_;
  BlockIndex index_;
  BlockId head_ = kNoBlock, tail_ = kNoBlock;
  int32_t num_free_ = 0;
  int32_t num_cached_free_ = 0;
  int64_t num_evictions_ = 0;
};

}  // namespace incipit
