// One block's metadata, and the lists that blocks without a user stand in.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"
#include "kvcache/block_hash.h"

namespace incipit {

// One cache line. A published block is findable by its key. Of several with the same key one
// answers, the first published; they form a ring. The blocks that answer also form the trees of
// their chains: a block's parent is the one that answers for the key before its own.
struct alignas(64) Block {
  BlockHash hash;                            // of a published block
  BlockId prev = kNoBlock, next = kNoBlock;  // neighbours in the list that a free block stands in
  BlockId next_same = kNoBlock;              // ring of those with the same key, by age
  BlockId parent = kNoBlock;                 // of one that answers; none where a chain starts
  BlockId first_child = kNoBlock;
  BlockId next_sibling = kNoBlock, prev_sibling = kNoBlock;
  uint32_t num_users : 24 = 0;
  bool published : 1 = false;
  bool pending : 1 = false;  // its contents are written by the step being planned or run
  bool answers : 1 = false;
  bool told : 1 = false;  // its key has been told of as stored
  bool starts_chain : 1 = false;
  bool has_wish : 1 = false;  // its retention was asked for
  bool retained : 1 = false;  // stands in a list of retained blocks, not in the policy's order

  bool has_children() const { return first_child != kNoBlock; }
  // Others descend from this block, `self`, and no other carries its key that could take them over.
  bool is_needed(BlockId self) const { return has_children() && next_same == self; }
};
static_assert(sizeof(Block) == 64);

// A doubly linked list through Block::prev and Block::next; a block stands in one at most.
struct BlockList {
  BlockId front = kNoBlock, back = kNoBlock;

  bool empty() const { return front == kNoBlock; }
  void PushBack(std::span<Block> blocks, BlockId id);
  void PushFront(std::span<Block> blocks, BlockId id);
  // REQUIRES: `id` stands in this list.
  void Remove(std::span<Block> blocks, BlockId id);
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

inline void BlockList::Remove(std::span<Block> blocks, BlockId id) {
  Block& block = At(blocks, id);
  (block.prev == kNoBlock ? front : At(blocks, block.prev).next) = block.next;
  (block.next == kNoBlock ? back : At(blocks, block.next).prev) = block.prev;
  block.prev = block.next = kNoBlock;
}

}  // namespace incipit
