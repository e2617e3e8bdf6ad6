// Detects races: accesses of global memory whose order is not defined. A race is detected even if
// the threads happened to run in an order without an error.
//
// Only AtomicAddGlobal orders blocks of a kernel, and only WaitForEarlierKernels orders kernels.
// For every 4 bytes of global memory, the detector stores only the latest write and the latest
// read. A race with an access that is not stored may be missed.
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

// The events that had happened before the latest atomic operation of block `block` on a word (4
// bytes of global memory).
struct BlockKnowledge {
  int block = 0;
  std::shared_ptr<const ClockVector> known;
};
// Events of other blocks that happened before an atomic operation of thread `thread`. `clock` is
// the event number of this operation.
struct LearnedOfBlocks {
  int thread = 0;
  Clock clock = 0;
  std::vector<BlockKnowledge> blocks;
};

class GlobalRaces {
 public:
  // Checks an access of global memory by `thread`, and records the access. Returns a description of
  // the race if the access is a race, otherwise an empty string.
  std::string Touch(const Thread& thread, const void* address, int64_t bytes, Access access,
                    Site site);
  // Records that an atomic operation of `thread` on the word at `address` happens after all earlier
  // atomic operations of other blocks on the same word.
  void Order(const Thread& thread, const void* address);

 private:
  static constexpr uintptr_t kPageBytes = 4096;
  struct Event {
    // Index of the accessing kernel among the kernels of its stream. -1: there was no access.
    int32_t grid = -1;
    int32_t block = 0;
    Clock clock = 0;
    uint16_t thread = 0;
    uint8_t bytes = 0;  // bit i is set if byte i of the word (4 bytes) is accessed
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
