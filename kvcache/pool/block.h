// The metadata of one block, and linked lists of blocks.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"
#include "kvcache/keys/block_hash.h"

namespace incipit {

// Maximum number of users (sequences and unfinished block copies) of one block.
inline constexpr int32_t kBlockUsersMax = 65'535;

// The metadata of one block, in one cache line. A block is called published if lookups can find the
// block by its key. If several published blocks have the same key, lookups return only the oldest
// of these blocks, which is called canonical.
struct alignas(64) Block {
  BlockHash hash;  // key of the block; valid only while lookups can find the block
  // Neighbours in a list of free blocks. A block with users is in no list.
  BlockId prev = kNoBlock, next = kNoBlock;
  // Next newer block with the same key. For the newest block: the oldest block with the same key.
  BlockId next_same = kNoBlock;
  // The previous block of the sequence, or kNoBlock if this block is the first. If several blocks
  // have the key of the previous block, `parent` is the oldest of these blocks.
  BlockId parent = kNoBlock;
  BlockId first_child = kNoBlock;
  BlockId next_sibling = kNoBlock, prev_sibling = kNoBlock;
  uint16_t num_users = 0;
  bool published : 1 = false;
  // True if the keys and values of the block are not computed yet.
  bool pending : 1 = false;
  bool canonical : 1 = false;
  bool starts_chain : 1 = false;
  // True if the block's key depends only on the hash seed and on tokens: the request has the
  // default tenant and no salt or adapter, and no image or other medium begins before the end of
  // the block.
  bool is_plain : 1 = false;
  bool has_hint : 1 = false;  // true if a request has set a retention hint for the block
  // True if a retention hint keeps the block. The block is then not in the eviction order of the
  // policy.
  bool retained : 1 = false;
  // Identifies the log of cache events that has reported the block as cached
  // (BlockPool::log_number_). 0: no log has reported the block.
  uint8_t emitted_in = 0;

  bool has_children() const { return first_child != kNoBlock; }
  // Returns true if the block must not be evicted now: a cached block follows this block in a
  // sequence, and no other block has the same key as this block. `self` is the id of this block.
  bool is_needed(BlockId self) const { return has_children() && next_same == self; }
};
static_assert(sizeof(Block) == 64);

// A doubly linked list through Block::prev and Block::next. A block is in at most one list.
struct BlockList {
  BlockId front = kNoBlock, back = kNoBlock;

  bool empty() const { return front == kNoBlock; }
  void PushBack(std::span<Block> blocks, BlockId id);
  void PushFront(std::span<Block> blocks, BlockId id);
  // Appends the blocks `chain` to this list, the last block of `chain` first. Calls `visit(id)` for
  // each block. REQUIRES: `chain` is not empty.
  template <typename Visit>
  void PushBackReversed(std::span<Block> blocks, std::span<const BlockId> chain,
                        const Visit& visit);
  // Removes block `id`. REQUIRES: `id` is in this list.
  void Remove(std::span<Block> blocks, BlockId id);
  // Removes all blocks from `first` to `last`, inclusive, but keeps the links between these blocks.
  // REQUIRES: both blocks are in this list, and `last` is not before `first`.
  void RemoveRange(std::span<Block> blocks, BlockId first, BlockId last);
};

inline Block& At(std::span<Block> blocks, BlockId id) { return blocks[static_cast<size_t>(id)]; }

inline void BlockList::PushBack(std::span<Block> blocks, BlockId id) {
  Block& block = At(blocks, id);
  block.prev = back;
  block.next = kNoBlock;
  (back == kNoBlock ? front : At(blocks, back).next) = id;
  back = id;
}

inline void BlockList::PushFront(std::span<Block> blocks, BlockId id) {
  Block& block = At(blocks, id);
  block.prev = kNoBlock;
  block.next = front;
  (front == kNoBlock ? back : At(blocks, front).prev) = id;
  front = id;
}

template <typename Visit>
void BlockList::PushBackReversed(std::span<Block> blocks, std::span<const BlockId> chain,
                                 const Visit& visit) {
  BlockId after = kNoBlock, id = chain.front();
  for (const BlockId before : chain.subspan(1)) {
    Block& block = At(blocks, id);
    block.prev = before;
    block.next = after;
    visit(id);
    after = id;
    id = before;
  }
  At(blocks, id).prev = back;
  At(blocks, id).next = after;
  visit(id);
  (back == kNoBlock ? front : At(blocks, back).next) = id;
  back = chain.front();
}

inline void BlockList::RemoveRange(std::span<Block> blocks, BlockId first, BlockId last) {
  const BlockId before = At(blocks, first).prev, after = At(blocks, last).next;
  (before == kNoBlock ? front : At(blocks, before).next) = after;
  (after == kNoBlock ? back : At(blocks, after).prev) = before;
}

inline void BlockList::Remove(std::span<Block> blocks, BlockId id) {
  Block& block = At(blocks, id);
  (block.prev == kNoBlock ? front : At(blocks, block.prev).next) = block.next;
  (block.next == kNoBlock ? back : At(blocks, block.next).prev) = block.prev;
  block.prev = block.next = kNoBlock;
}

}  // namespace incipit
