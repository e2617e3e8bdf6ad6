// One block's metadata, and the lists that blocks without a user stand in.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"
#include "kvcache/keys/block_hash.h"

namespace incipit {

// How many may use a block at a time.
inline constexpr int32_t kBlockUsersMax = 65'535;

// One cache line. A published block is findable by its key. Of several with the same key one
// is canonical, the first published; they form a ring. The canonical blocks also form the trees of
// their chains: a block's parent is the canonical one of the key before its own.
struct alignas(64) Block {
  BlockHash hash;                            // of a published block
  BlockId prev = kNoBlock, next = kNoBlock;  // neighbours in the list that a free block stands in
  BlockId next_same = kNoBlock;              // ring of those with the same key, by age
  BlockId parent = kNoBlock;                 // of a canonical one; none where a chain starts
  BlockId first_child = kNoBlock;
  BlockId next_sibling = kNoBlock, prev_sibling = kNoBlock;
  uint16_t num_users = 0;
  bool published : 1 = false;
  bool pending : 1 = false;  // its contents are written by the step being planned or run
  bool canonical : 1 = false;
  bool stored_emitted : 1 = false;  // an event has reported its key as stored
  bool starts_chain : 1 = false;
  bool has_hint : 1 = false;  // its retention was asked for
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
  // The last of `chain` first, so that it stands before the others; `visit(id)` of each on the way.
  // Costs two lines a block at most, and no block waits for the one before it.
  // REQUIRES: `chain` is not empty.
  template <typename Visit>
  void PushBackReversed(std::span<Block> blocks, std::span<const BlockId> chain,
                        const Visit& visit);
  // REQUIRES: `id` stands in this list.
  void Remove(std::span<Block> blocks, BlockId id);
  // Takes out what stands from `first` to `last`. Those in between keep their neighbours.
  // REQUIRES: both stand in this list, `last` not before `first`.
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
