// Finds accesses of a block's shared memory that no barrier orders: for every 4 bytes, who wrote
// last and when each warp read last. A race is found whatever the interleaving that made it, and
// whether or not it did harm. What it misses: all but the latest of several unordered readers of
// one warp that read different bytes of the same 4, and of writers of different bytes.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/emulator/calls.h"
#include "kernels/emulator/clocks.h"

namespace incipit::emulator {

class SharedRaces {
 public:
  SharedRaces(int num_threads, int shared_bytes);

  Clocks& clocks() { return clocks_; }

  // ---- accesses: a description of the race, or nothing. `offset` in bytes.
  struct Range {
    int offset = 0;
    int bytes = 0;
  };
  std::string Touch(int thread, Range range, Access access, Site site);
  // Whether what was written there is known; changes nothing.
  std::string Observe(int thread, Range range, Site site);
  // Between the two, no access is ordered.
  std::string BeginCopy(int thread, Range range, Site site);
  void EndCopy(int thread, Range range);
  // A read by all lanes of the thread's warp, of what must be fenced unless bulk copies wrote it.
  // Between the two, no access that overwrites is ordered.
  std::string BeginMultiply(int thread, Range range, Site site);
  void EndMultiply(int thread, Range range);
  // Until the phase (from 1) of the barrier has ended and one has waited for it.
  std::string BeginBulk(int thread, Range range, int barrier, Clock phase, Site site);
  // What the thread knows now of this memory may be followed by bulk copies.
  void FenceBulk(int thread, Memory memory);
  bool IsFenced(int thread, int agent, Clock clock, Memory memory) const;
  // By a thread of another block, which knows what this block did before the cluster met last.
  std::string ReadRemotely(Range range, Site site);
  // Whether another block may still read here, as no ArriveCluster has come since.
  bool IsReadRemotely() const { return last_remote_read_ > clocks_.ClusterArrivals(); }

 private:
  static constexpr Clock kInFlight = ~Clock{0};
  enum Kind : uint8_t { kStore, kAtomicOp, kCopy, kBulk };
  struct Write {
    Clock clock = 0;  // 0: none
    uint16_t agent = 0;
    uint8_t bytes = 0;  // bit i: byte i
    Kind kind = kStore;
    int32_t line = 0;
  };
  // Of the lanes of a warp.
  struct Read {
    static constexpr uint32_t kSeveral = 32;  // lanes, at the same clock
    uint32_t clock : 22, lane : 6, bytes : 4;
  };
  static constexpr Clock kMostClock = (Clock{1} << 22) - 1;
  template <class T>
  struct FreeArray {
    void operator()(T* array) const { std::free(array); }
  };
  template <class T>
  using ZeroArray = std::unique_ptr<T, FreeArray<T>>;
  struct Word {
    int index = 0;
    uint8_t bytes = 0;
  };

  // Until `each` finds a race.
  template <class Each>
  std::string ForWords(Range range, Each each);
  bool Race(std::string what);
  bool KnowsWrite(int thread, Word word);
  bool KnowsReads(int thread, Word word, int& warp);
  void NoteRead(int thread, Word word);
  std::string Overwrite(int thread, Range range, const Write& write, Site site);
  std::string DescribeWrite(int thread, Word word, const char* does, Site site) const;
  std::string DescribeRead(int thread, Word word, int warp, Site site) const;

  int num_warps_ = 0;
  Clocks clocks_;
  ZeroArray<Write> writes_;        // per word
  ZeroArray<Read> reads_;          // per word and warp
  ZeroArray<Clock> remote_reads_;  // per word, in ArriveClusters
  Clock last_remote_read_ = 0;
  // Per thread: agent and clock of the latest write found to be known.
  std::vector<uint64_t> known_writes_;
  // Of a thread: when it fenced, and what it knew at the latest fence.
  struct Fences {
    std::vector<Clock> clocks;
    std::shared_ptr<const ClockVector> known;
  };
  std::array<std::vector<Fences>, 2> fences_;  // per memory and thread
  std::string race_;
};

}  // namespace incipit::emulator
