// The lists that a policy's blocks stand in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/pool/block.h"

namespace incipit {

// Lists of blocks, oldest in front. Knows of each block which list it stands in, and sets blocks
// aside (parks them) that are needed when they come up for eviction.
class BlockOrder {
 public:
  // REQUIRES: 1 <= num_lists <= kListsMax.
  BlockOrder(std::span<Block> blocks, int num_lists);

  static constexpr int kListsMax = 4096;

  std::span<Block> blocks() const { return blocks_; }
  bool has(BlockId id) const { return PositionOf(id) != kNowhere; }
  // REQUIRES: has(id).
  int ListOf(BlockId id) const { return (PositionOf(id) - 1) / 2; }

  void PushBack(int list, BlockId id) {
    ListAt(list).PushBack(blocks_, id);
    SetListed(list, id);
  }
  void PushFront(int list, BlockId id) {
    ListAt(list).PushFront(blocks_, id);
    SetListed(list, id);
  }
  // Takes `id` out of its list, or from those set aside. REQUIRES: has(id).
  void Remove(BlockId id) {
    if (!is_parked(id)) Unlink(id);
    PositionOf(id) = kNowhere;
  }

  // The oldest block of a list that is not needed, kNoBlock if there is none. Parks those that are
  // and come before it.
  BlockId Oldest(int list) {
    while (true) {
      const BlockId id = Front(list);
      if (id == kNoBlock || !At(blocks_, id).is_needed(id)) return id;
      Park(id);
    }
  }
  // Sets a listed block aside.
  void Park(BlockId id) {
    Unlink(id);
    ++PositionOf(id);
  }
  BlockId Front(int list) const { return lists_[static_cast<size_t>(list)].front; }
  // The first list at or after `from`, going round, that is not empty; -1 if all are.
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
  std::vector<uint16_t> positions_;  // kNowhere, or 2 * list + 1, and one more if parked
  std::vector<BlockList> lists_;
  std::vector<uint64_t> occupied_;  // a bit a list
};

}  // namespace incipit
