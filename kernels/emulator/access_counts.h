// Counts what a card would have to do for the accesses of a warp: a lane's n-th access at a place
// in the source belongs with the n-th of the other lanes there. Shared memory serves 32 banks of 4
// bytes at once: to 32 lanes of up to 4 bytes each, 16 of 8 or 8 of 16; global memory moves sectors
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

// How many times longer than without conflicts the banks are busy, less one, summed over the parts
// of the lanes that are served at once. Addresses in bytes.
int64_t BankConflicts(std::span<const uint64_t> addresses, int bytes);
// Sectors that the lanes touch, and the fewest that their bytes fit into.
struct Sectors {
  int64_t touched = 0, fewest = 0;
};
Sectors CountSectors(std::span<const uint64_t> addresses, int bytes);

class AccessCounts {
 public:
  // One lane of a warp (any number that is its own during the run).
  void Note(int64_t warp, int lane, AccessKind kind, uint64_t address, int bytes, Site site);
  // All lanes together: the 16-byte rows of LoadMatricesWarp.
  void NoteRows(std::span<const uint64_t> rows, Site site);
  // Judges what is left of a warp: accesses that not all lanes made.
  void EndWarp(int64_t warp);
  // By file, line and kind.
  std::vector<SiteCounts> Sites() const;

 private:
  struct Group {
    int num_lanes = 0, bytes = 0;
    std::array<uint64_t, kLanes> addresses{};
    uint32_t lanes = 0;
  };
  struct WarpAtSite {
    std::array<uint32_t, kLanes> occurrences{};  // of each lane
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
