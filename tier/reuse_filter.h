// ReuseFilter: recognises keys that occur for the second time, for the store policy `reused`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace incipit {

// Stores the keys of about 131,072 chunks in 512 KiB of memory. SeenBefore returns true for a new
// key with a probability of about 1 in 500 million.
class ReuseFilter {
 public:
  // Returns true if `key`, the first 8 bytes of a block key, was passed before and is still stored.
  // Otherwise, stores `key` in place of an older key.
  bool SeenBefore(uint64_t key) {
    const uint32_t tag = TagOf(key);
    Set& set = sets_[(key >> 32) % kNumSets];
    for (uint32_t* const stored : {&set.newer, &set.older}) {
      if ((*stored & ~kTwice) != tag) continue;
      *stored |= kTwice;
      return true;
    }
    set.older = set.newer;
    set.newer = tag;
    return false;
  }
  // Returns true if SeenBefore(`key`) has returned true, and `key` is still stored.
  bool SeenTwice(uint64_t key) const {
    const Set& set = sets_[(key >> 32) % kNumSets];
    const uint32_t wanted = TagOf(key) | kTwice;
    return set.newer == wanted || set.older == wanted;
  }

 private:
  static constexpr size_t kNumSets = 65536;
  // Bits of a tag that are not part of the key. A tag of 0 is empty.
  static constexpr uint32_t kUsed = 1, kTwice = 2;
  static uint32_t TagOf(uint64_t key) { return (static_cast<uint32_t>(key) | kUsed) & ~kTwice; }
  struct Set {
    uint32_t newer = 0, older = 0;
  };
  std::vector<Set> sets_ = std::vector<Set>(kNumSets);
};

}  // namespace incipit
