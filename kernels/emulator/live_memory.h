// Declares LiveMemory, the set of allocated address ranges that kernels of the emulated GPU may
// access.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace incipit::emulator {

class LiveMemory {
 public:
  struct Range {
    const char* begin = nullptr;
    const char* end = nullptr;

    bool Holds(const char* data, int64_t bytes) const {
      return data >= begin && data < end && bytes <= end - data;
    }
  };

  // REQUIRES: `ranges` is sorted by address, and its ranges do not overlap.
  explicit LiveMemory(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}

  // Returns true if the `bytes` bytes at `data` are within one allocated range.
  bool Holds(const void* data, int64_t bytes) {
    const auto* const begin = static_cast<const char*>(data);
    Range& latest = latest_[reinterpret_cast<uintptr_t>(data) / kPageBytes % kPages];
    if (latest.Holds(begin, bytes)) return true;
    const auto after = std::ranges::upper_bound(ranges_, begin, {}, &Range::begin);
    if (after == ranges_.begin() || !std::prev(after)->Holds(begin, bytes)) return false;
    latest = *std::prev(after);
    return true;
  }

 private:
  static constexpr uintptr_t kPageBytes = 4096, kPages = 256;

  std::vector<Range> ranges_;
  // Cache of Holds(). Element n % kPages: the allocated range that Holds() last found for an
  // address in memory page n. All pages with the same n % kPages share this element.
  std::array<Range, kPages> latest_{};
};

}  // namespace incipit::emulator
