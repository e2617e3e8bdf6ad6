// Detects unordered accesses of global memory (races): between threads of a block, between blocks
// of a grid, and between a kernel and the next kernel that started early. Only AtomicAddGlobal
// orders blocks of a grid, and only WaitForEarlierKernels orders kernels. An unordered access is
// found even if the threads happened to run in a harmless order. For every 4 bytes of global
// memory, the detector stores the latest write, and the latest read by the latest kernel. If
// several accesses touch different bytes of the same 4 bytes, the detector stores only one of these
// accesses.
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

// The events that block `block` knew at its last atomic operation on a word.
struct BlockKnowledge {
  int block = 0;
  std::shared_ptr<const ClockVector> known;
};
// The events of other blocks that thread `thread` of this block acquired by an atomic operation at
// clock `clock`.
struct LearnedOfBlocks {
  int thread = 0;
  Clock clock = 0;
  std::vector<BlockKnowledge> blocks;
};

class GlobalRaces {
 public:
  // Records an access. Returns a description of the race if the access is unordered, otherwise an
  // empty string.
  std::string Touch(const Thread& thread, const void* address, int64_t bytes, Access access,
                    Site site);
  // Orders the atomic operation of `thread` on the word at `address` after all earlier atomic
  // operations of other blocks on that word.
  void Order(const Thread& thread, const void* address);

 private:
  static constexpr uintptr_t kPageBytes = 4096;
  struct Event {
    int32_t grid = -1;  // index of the kernel in the stream; -1: no event
    int32_t block = 0;
    Clock clock = 0;
    uint16_t thread = 0;
    uint8_t bytes = 0;  // bit i is set if the event accesses byte i of the word
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
