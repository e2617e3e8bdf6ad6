// Detects data races in global memory: accesses of the same bytes, at least one of them a write,
// whose order is not defined. Only AtomicAddGlobal() orders the accesses of different thread blocks
// of a kernel. Only WaitForEarlierKernels() orders the accesses of different kernels.
//
// For every 4 bytes, only the latest write and the latest read are stored. A race with an older
// access may be missed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/emulator/calls.h"
#include "kernels/emulator/clocks.h"

namespace incipit::emulator {

struct Thread;
struct Grid;

// Vector clock that thread block `block` had at its latest atomic operation on a word (4 bytes of
// global memory).
struct BlockKnowledge {
  int block = 0;
  std::shared_ptr<const ClockVector> known;
};
// Vector clocks that thread `thread` acquired from other thread blocks by an atomic operation.
// `clock`: clock value of the thread at this operation.
struct LearnedOfBlocks {
  int thread = 0;
  Clock clock = 0;
  std::vector<BlockKnowledge> blocks;
};

class GlobalRaces {
 public:
  // Checks and records an access of global memory by `thread`. Returns a description of the race,
  // or an empty string if there is no race.
  std::string Touch(const Thread& thread, const void* address, int64_t bytes, Access access,
                    Site site);
  // Records an atomic operation of `thread` at `address`. All atomic operations that were recorded
  // earlier at this address happened before this operation.
  void Order(const Thread& thread, const void* address);

 private:
  static constexpr uintptr_t kPageBytes = 4096;
  struct Event {
    // Number of the kernel that made the access, counted from 0 in the order of launch. -1: there
    // was no access.
    int32_t grid = -1;
    int32_t block = 0;
    Clock clock = 0;
    uint16_t thread = 0;
    uint8_t bytes = 0;  // bit i is set if byte i of the word (4 bytes) was accessed
    bool is_atomic = false;
  };
  struct Word {
    Event write, read;
  };
  using Page = std::array<Word, kPageBytes / 4>;
  struct AtomicWord {
    int grid = -1;
    std::vector<BlockKnowledge> blocks;
  };

  Page& PageOf(uintptr_t address);
  bool Race(std::string what);
  bool TouchWord(const Thread& thread, Word& word, const Event& now, Access access);
  static bool NeedsFence(const Thread& thread, const Event& before);
  static bool IsOrdered(const Thread& thread, const Event& before);
  static void Learn(std::vector<BlockKnowledge>& blocks, const BlockKnowledge& more);
  static std::string Describe(const Event& before, const char* did);

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  uintptr_t latest_ = 0;
  Page* latest_page_ = nullptr;
  std::unordered_map<uintptr_t, AtomicWord> atomics_;
  std::string race_;
};

}  // namespace incipit::emulator
