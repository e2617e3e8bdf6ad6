// Counts the memory transactions that a GPU would need for the accesses of a warp. The n-th
// accesses of all 32 lanes at one source line count as one access of the warp. Shared memory has 32
// banks of 4 bytes. One transaction of shared memory serves 32 lanes of up to 4 bytes, 16 lanes of
// 8 bytes, or 8 lanes of 16 bytes. Global memory transfers sectors of 32 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "kernels/emulator/calls.h"
#include "kernels/emulator/clocks.h"
#include "kernels/emulator/run.h"

namespace incipit::emulator {

// Returns the number of additional transactions of shared memory that bank conflicts cause in one
// access of a warp. `addresses` holds the address of each lane, in bytes. Each lane accesses
// `bytes` bytes.
int64_t BankConflicts(std::span<const uint64_t> addresses, int bytes);
// Numbers of sectors (32 bytes each) of global memory for one access of a warp. `touched` is the
// number of sectors that the lanes access. `fewest` is the number of sectors that would suffice for
// the same number of bytes.
struct Sectors {
  int64_t touched = 0, fewest = 0;
};
Sectors CountSectors(std::span<const uint64_t> addresses, int bytes);

class AccessCounts {
 public:
  // Records the access of one lane. `warp` identifies the warp among all warps of the run.
  void Note(int64_t warp, int lane, AccessKind kind, uint64_t address, int bytes, Site site);
  // Records one LoadMatricesWarp of a warp. `rows` holds the address of the 16-byte row that each
  // lane passes.
  void NoteRows(std::span<const uint64_t> rows, Site site);
  // Counts the accesses of warp `warp` that only some of the lanes have made. Must be called when
  // the warp has ended.
  void EndWarp(int64_t warp);
  // Returns the counts of all source lines, sorted by file, line and kind of access.
  std::vector<SiteCounts> Sites() const;

 private:
  struct Group {
    int num_lanes = 0, bytes = 0;
    std::array<uint64_t, kLanes> addresses{};
    uint32_t lanes = 0;
  };
  struct WarpAtSite {
    // Element i is the number of accesses of lane i at this source line.
    std::array<uint32_t, kLanes> occurrences{};
    uint32_t num_judged = 0;
    std::deque<Group> open;
  };

  size_t SiteIndex(AccessKind kind, Site site);
  void Judge(size_t site, const Group& group);
  void Add(SiteCounts& counts, std::span<const uint64_t> addresses, int bytes);

  std::map<std::tuple<const char*, int, AccessKind>, size_t> index_;
  std::vector<SiteCounts> sites_;
  std::unordered_map<int64_t, std::vector<WarpAtSite>> warps_;
};

}  // namespace incipit::emulator
