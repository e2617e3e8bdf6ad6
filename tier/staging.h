// Staging: the host memory through which all loads and stores pass. The I/O threads access the
// bytes of chunks only in staging. Staging consists of slots, and each slot has room for one
// record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "tier/segments/segment_store.h"

namespace incipit {

// The memory of the slots. The memory of a slot belongs to one thread at a time.
class StagingMemory {
 public:
  StagingMemory(uint32_t num_slots, size_t record_bytes)
      : record_bytes_(record_bytes), memory_(num_slots * record_bytes) {}
  std::span<std::byte> slot(uint32_t slot) const {
    return memory_.bytes().subspan(slot * record_bytes_, record_bytes_);
  }

 private:
  const size_t record_bytes_;
  const PageBuffer memory_;
};

// The list of free slots. Used only by the engine thread. Allocates memory only in the constructor.
class FreeSlots {
 public:
  explicit FreeSlots(uint32_t num_slots) {
    free_.reserve(num_slots);
    while (num_slots > 0) free_.push_back(--num_slots);
  }
  std::optional<uint32_t> Take() {
    if (free_.empty()) return std::nullopt;
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void Put(uint32_t slot) {
    INCIPIT_CHECK(free_.size() < free_.capacity());
    free_.push_back(slot);
  }
  uint32_t size() const { return static_cast<uint32_t>(free_.size()); }

 private:
  std::vector<uint32_t> free_;
};

}  // namespace incipit
