// Counts the memory transactions that a GPU would need for the accesses of a warp. The n-th access
// of a lane at a source line belongs to the n-th accesses of the other lanes at that line. Shared
// memory has 32 banks of 4 bytes that serve one access at a time: 32 lanes of up to 4 bytes, 16
// lanes of 8 bytes, or 8 lanes of 16 bytes. Global memory moves sectors of 32 bytes.
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

// Returns the number of additional accesses that bank conflicts cause, summed over the groups of
// lanes that shared memory serves together. `addresses` are in bytes.
int64_t BankConflicts(std::span<const uint64_t> addresses, int bytes);
// Numbers of sectors (32 bytes each) of global memory for an access of a warp: the sectors that the
// lanes touch, and the minimum for the same number of bytes.
struct Sectors {
  int64_t touched = 0, fewest = 0;
};
Sectors CountSectors(std::span<const uint64_t> addresses, int bytes);

class AccessCounts {
 public:
  // Records the access of one lane. `warp` is any number that is unique during the run.
  void Note(int64_t warp, int lane, AccessKind kind, uint64_t address, int bytes, Site site);
  // Records an access of all lanes together: the 16-byte rows of LoadMatricesWarp.
  void NoteRows(std::span<const uint64_t> rows, Site site);
  // Counts the remaining accesses of a warp, which not all lanes have made.
  void EndWarp(int64_t warp);
  // Returns the counts, sorted by file, line and kind.
  std::vector<SiteCounts> Sites() const;

 private:
  struct Group {
    int num_lanes = 0, bytes = 0;
    std::array<uint64_t, kLanes> addresses{};
    uint32_t lanes = 0;
  };
  struct WarpAtSite {
    std::array<uint32_t, kLanes> occurrences{};  // number of accesses of each lane
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
