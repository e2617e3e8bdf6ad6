// Counts the memory transactions that a GPU would need for the accesses of a warp (32 lanes). The
// n-th access of each lane at a source line belongs to the n-th access of the warp.
//
// Shared memory has 32 banks of 4 bytes. One transaction serves 32 lanes that access up to 4 bytes
// each, 16 lanes that access 8 bytes, or 8 lanes that access 16 bytes. Global memory transfers
// sectors of 32 bytes.
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

// Returns the number of additional transactions that bank conflicts of shared memory cause in one
// access of a warp. Element i of `addresses` is the address of lane i, in bytes. Each lane accesses
// `bytes` bytes.
int64_t BankConflicts(std::span<const uint64_t> addresses, int bytes);
// Numbers of sectors (32 bytes each) of global memory in one access of a warp. `touched` counts the
// sectors that the lanes access. `fewest` is the number of sectors if all accessed bytes were
// contiguous.
struct Sectors {
  int64_t touched = 0, fewest = 0;
};
Sectors CountSectors(std::span<const uint64_t> addresses, int bytes);

class AccessCounts {
 public:
  // Records an access of `bytes` bytes by lane `lane`. `warp` is the index of the warp among all
  // warps of the run.
  void Note(int64_t warp, int lane, AccessKind kind, uint64_t address, int bytes, Site site);
  // Records one call of LoadMatricesWarp by a warp. Element i of `rows` is the address of the 16
  // bytes that lane i passes.
  void NoteRows(std::span<const uint64_t> rows, Site site);
  // Counts the accesses that only some lanes of warp `warp` have made. Must be called after the
  // warp has ended.
  void EndWarp(int64_t warp);
  // Returns the access counts of each source line, sorted by file, line and kind of access.
  std::vector<SiteCounts> Sites() const;

 private:
  struct Group {
    int num_lanes = 0, bytes = 0;
    std::array<uint64_t, kLanes> addresses{};
    uint32_t lanes = 0;
  };
  struct WarpAtSite {
    // Element i is the number of accesses that lane i has made at this source line.
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
