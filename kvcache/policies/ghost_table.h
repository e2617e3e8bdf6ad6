// A table of evicted blocks, for the eviction policies ARC, LRU-2 and S3-FIFO.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace incipit {

// Maps keys of evicted blocks to 32-bit values. Only 31 bits of each key are stored, so about one
// lookup in a hundred million finds the entry of another key.
class GhostTable {
 public:
  // Creates a table with at least `num_slots` slots of 8 bytes each.
  explicit GhostTable(int64_t num_slots)
      : sets_(static_cast<size_t>((num_slots + kWays - 1) / kWays)) {}

  // Stores the value `memory` for `key`, the first 8 bytes of a block key. Uses an empty slot, or a
  // slot whose value may be discarded because is_worthless(value) is true. If no such slot exists,
  // overwrites the oldest value. REQUIRES: later values are greater than earlier values.
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

  // Removes the entry of `key`. Returns the value of the entry, or std::nullopt if there is no
  // entry.
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
    uint32_t tag = 0;  // 31 bits of the key; 0: the slot is empty
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
