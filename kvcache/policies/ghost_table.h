// What the simple policies remember of blocks that they evicted.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace incipit {

// Keys with 32 bits of memory each. A key may stand in one of two sets, each a cache line, and goes
// where more is free: that fills the table to the brim before anything is lost. A key is told by 31
// of its bits: a block that was never here is taken for a ghost once in a hundred million looks,
// which costs no more than a slightly worse order.
class GhostTable {
 public:
  // 8 bytes a place.
  explicit GhostTable(int64_t num_slots)
      : sets_(static_cast<size_t>((num_slots + kWays - 1) / kWays)) {}

  // Remembers `key`, a block's BlockHash::prefix(), in an empty place, in that of a memory which
  // `is_worthless`, or else of the oldest: memories compare as times on a clock that wraps.
  void Insert(uint64_t key, uint32_t memory, auto&& is_worthless) {
    Ghost* oldest = nullptr;
    Ghost* free[2] = {};
    int num_free[2] = {};
    for (const size_t choice : {0, 1}) {
      for (Ghost& ghost : SetOf(key, choice).ghosts) {
        if (ghost.tag == 0 || is_worthless(ghost.memory)) {
          free[choice] = &ghost;
          ++num_free[choice];
        } else if (oldest == nullptr || memory - ghost.memory > memory - oldest->memory) {
          oldest = &ghost;
        }
      }
    }
    Ghost* const slot = num_free[0] + num_free[1] == 0 ? oldest
                        : num_free[0] >= num_free[1]   ? free[0]
                                                       : free[1];
    *slot = {TagOf(key), memory};
  }

  // The memory of `key`, which is forgotten.
  std::optional<uint32_t> Take(uint64_t key) {
    for (const size_t choice : {0, 1}) {
      for (Ghost& ghost : SetOf(key, choice).ghosts) {
        if (ghost.tag != TagOf(key)) continue;
        ghost.tag = 0;
        return ghost.memory;
      }
    }
    return std::nullopt;
  }

  size_t num_bytes() const { return sets_.size() * sizeof(Set); }

 private:
  struct Ghost {
    uint32_t tag = 0;  // 0: empty
    uint32_t memory = 0;
  };
  static constexpr int kWays = 8;
  struct alignas(64) Set {
    std::array<Ghost, kWays> ghosts;
  };

  static uint32_t TagOf(uint64_t key) { return static_cast<uint32_t>(key) | 1; }
  Set& SetOf(uint64_t key, size_t choice) {
    const uint64_t bits = choice == 0 ? key >> 32 : (key * 0x9E3779B97F4A7C15) >> 32;
    return sets_[bits * sets_.size() >> 32];
  }

  std::vector<Set> sets_;
};

}  // namespace incipit
