// ReuseFilter: recognises keys that occur for the second time, for the store policy `reused`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace incipit {

// Stores the keys of about 131,072 chunks in 512 KiB of memory. SeenBefore returns true for a new
// key with a probability of about 1 in 2 billion.
class ReuseFilter {
 public:
  // Returns true if `key`, the first 8 bytes of a block key, was passed before and is still stored.
  // Otherwise, stores `key` in place of an older key.
  bool SeenBefore(uint64_t key) {
    const uint32_t tag = static_cast<uint32_t>(key) | 1;  // 0: empty
    Set& set = sets_[(key >> 32) % kNumSets];
    if (set.newer == tag || set.older == tag) return true;
    set.older = set.newer;
    set.newer = tag;
    return false;
  }

 private:
  static constexpr size_t kNumSets = 65536;
  struct Set {
    uint32_t newer = 0, older = 0;
  };
  std::vector<Set> sets_ = std::vector<Set>(kNumSets);
};

}  // namespace incipit
