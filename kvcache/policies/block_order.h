// Lists of cached blocks, from which an eviction policy chooses the next block to evict.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/pool/block.h"

namespace incipit {

// Lists of cached blocks, with the oldest block of each list in front. Park() removes a block from
// its list for some time, because the block must not be evicted yet.
class BlockOrder {
 public:
  // REQUIRES: 1 <= `num_lists` <= kListsMax.
  BlockOrder(std::span<Block> blocks, int num_lists);

  static constexpr int kListsMax = 4096;

  std::span<Block> blocks() const { return blocks_; }
  bool has(BlockId id) const { return PositionOf(id) != kNowhere; }
  // Returns the index of the list of block `id`, also if Park() has removed the block from the
  // list. REQUIRES: has(`id`).
  int ListOf(BlockId id) const { return (PositionOf(id) - 1) / 2; }

  void PushBack(int list, BlockId id) {
    ListAt(list).PushBack(blocks_, id);
    SetListed(list, id);
  }
  void PushFront(int list, BlockId id) {
    ListAt(list).PushFront(blocks_, id);
    SetListed(list, id);
  }
  // Removes block `id` from the order, so that has(`id`) becomes false. REQUIRES: has(`id`).
  void Remove(BlockId id) {
    if (!is_parked(id)) Unlink(id);
    PositionOf(id) = kNowhere;
  }

  // Returns the oldest block of `list` that may be evicted, or kNoBlock. Removes older blocks that
  // must not be evicted yet from `list`, and marks these blocks as parked.
  BlockId Oldest(int list) {
    while (true) {
      const BlockId id = Front(list);
      if (id == kNoBlock || !At(blocks_, id).is_needed(id)) return id;
      Park(id);
    }
  }
  // Removes block `id` from its list. ListOf(`id`) still returns the index of this list.
  void Park(BlockId id) {
    Unlink(id);
    ++PositionOf(id);
  }
  BlockId Front(int list) const { return lists_[static_cast<size_t>(list)].front; }
  // Returns the index of the first list that is not empty, in the order `from`, `from` + 1, ...,
  // last list, list 0, list 1, ... Returns -1 if all lists are empty.
  int FirstOccupied(int from) const;

  bool is_parked(BlockId id) const { return has(id) && PositionOf(id) % 2 == 0; }
  void Clear();
  size_t num_bytes() const;

 private:
  static constexpr uint16_t kNowhere = 0;
  static uint16_t Listed(int list) { return static_cast<uint16_t>(2 * list + 1); }

  void SetListed(int list, BlockId id) {
    PositionOf(id) = Listed(list);
    occupied_[static_cast<size_t>(list) / 64] |= uint64_t{1} << list % 64;
  }
  void Unlink(BlockId id) {
    const int list = ListOf(id);
    ListAt(list).Remove(blocks_, id);
    if (ListAt(list).empty()) {
      occupied_[static_cast<size_t>(list) / 64] &= ~(uint64_t{1} << list % 64);
    }
  }
  BlockList& ListAt(int list) { return lists_[static_cast<size_t>(list)]; }
  uint16_t& PositionOf(BlockId id) { return positions_[static_cast<size_t>(id)]; }
  uint16_t PositionOf(BlockId id) const { return positions_[static_cast<size_t>(id)]; }

  std::span<Block> blocks_;
  // State of each block: kNowhere (in no list), 2 * i + 1 (in list i), or 2 * i + 2 (removed from
  // list i by Park()).
  std::vector<uint16_t> positions_;
  std::vector<BlockList> lists_;
  std::vector<uint64_t> occupied_;  // bit i % 64 of element i / 64 is 1 if list i is not empty
};

}  // namespace incipit
