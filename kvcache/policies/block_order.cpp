#include "kvcache/policies/block_order.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace incipit {

BlockOrder::BlockOrder(std::span<Block> blocks, int num_lists)
    : blocks_(blocks),
      positions_(blocks.size(), kNowhere),
      lists_(static_cast<size_t>(num_lists)),
      occupied_((static_cast<size_t>(num_lists) + 63) / 64) {
  INCIPIT_CHECK(num_lists >= 1 && num_lists <= kListsMax);
}

int BlockOrder::FirstOccupied(int from) const {
  const size_t first = static_cast<size_t>(from) / 64;
  // Bit i of `occupied_` is 1 if list i is not empty. Each iteration examines one 64-bit word. The
  // first and the last iteration examine the word that contains bit `from`: the first iteration
  // from bit `from` on, the last iteration below bit `from`.
  for (size_t i = 0; i <= occupied_.size(); ++i) {
    const size_t word = (first + i) % occupied_.size();
    uint64_t bits = occupied_[word];
    const uint64_t before = (uint64_t{1} << from % 64) - 1;
    if (i == 0) bits &= ~before;
    if (i > 0 && word == first) bits &= before;
    if (bits != 0) return static_cast<int>(word) * 64 + std::countr_zero(bits);
  }
  return -1;
}

void BlockOrder::Clear() {
  std::ranges::fill(positions_, kNowhere);
  std::ranges::fill(lists_, BlockList{});
  std::ranges::fill(occupied_, 0);
}

size_t BlockOrder::num_bytes() const {
  return positions_.size() * sizeof(positions_[0]) + lists_.size() * sizeof(lists_[0]) +
         occupied_.size() * sizeof(occupied_[0]);
}

}  // namespace incipit
