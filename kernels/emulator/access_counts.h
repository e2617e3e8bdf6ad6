// Counts the memory transactions that a GPU would need for the accesses of a warp (32 lanes). The
// n-th accesses of all lanes at one source line count as one access of the warp.
//
// One transaction of shared memory serves up to 128 bytes. Global memory is transferred in sectors
// of 32 bytes.
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
// access of a warp. Lane i accesses `bytes` bytes at `addresses[i]`.
int64_t BankConflicts(std::span<const uint64_t> addresses, int bytes);
// Numbers of 32-byte sectors of global memory. `touched`: sectors that one access of a warp reads
// or writes. `fewest`: sectors that the access would need if its bytes were contiguous.
struct Sectors {
  int64_t touched = 0, fewest = 0;
};
Sectors CountSectors(std::span<const uint64_t> addresses, int bytes);

class AccessCounts {
 public:
  // Records an access of `bytes` bytes by one lane of a warp. `warp` is the number of the warp,
  // which is unique among all emulated warps.
  void Note(int64_t warp, int lane, AccessKind kind, uint64_t address, int bytes, Site site);
  // Records that a warp executed LoadMatricesWarp() (the PTX instruction ldmatrix). Lane i reads
  // the 16 bytes at `rows[i]`.
  void NoteRows(std::span<const uint64_t> rows, Site site);
  // Counts those accesses of warp `warp` that only some of its 32 lanes have made. REQUIRES: the
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
