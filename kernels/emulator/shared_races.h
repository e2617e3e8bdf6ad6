// Detects unordered accesses of a block's shared memory (races). For every 4 bytes, the detector
// remembers the last write and the last read of each warp. A race is detected in every
// interleaving, even if the result is right. If unordered lanes of one warp read different bytes of
// the same 4 bytes, only the last read is remembered. The same applies to writes of different
// bytes.
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

  // ---- accesses: each function returns a description of the race, or an empty string

  struct Range {  // a range of bytes in shared memory
    int offset = 0;
    int bytes = 0;
  };
  std::string Touch(int thread, Range range, Access access, Site site);
  // Checks that the thread knows the last write to the range. Changes nothing.
  std::string Observe(int thread, Range range, Site site);
  // A copy to the range. Between BeginCopy and EndCopy, every other access of the range is a race.
  std::string BeginCopy(int thread, Range range, Site site);
  void EndCopy(int thread, Range range);
  // A read of the range by all lanes of the thread's warp. Writes to the range must have been
  // followed by FenceBulk, except writes by bulk copies. Between BeginMultiply and EndMultiply,
  // every write to the range is a race.
  std::string BeginMultiply(int thread, Range range, Site site);
  void EndMultiply(int thread, Range range);
  // Begins a bulk copy to the range. Every access is a race until phase `phase` (from 1) of the
  // barrier has ended and the accessing thread has waited for the barrier.
  std::string BeginBulk(int thread, Range range, int barrier, Clock phase, Site site);
  // Allows bulk copies to follow all accesses of this memory that the thread knows.
  void FenceBulk(int thread, Memory memory);
  bool IsFenced(int thread, int agent, Clock clock, Memory memory) const;
  // Records a read by a thread of another block. That thread knows the events of this block before
  // the last complete barrier of the cluster.
  std::string ReadRemotely(Range range, Site site);
  // Returns true if another block may still be reading, because no ArriveCluster followed its read.
  bool IsReadRemotely() const { return last_remote_read_ > clocks_.ClusterArrivals(); }

 private:
  static constexpr Clock kInFlight = ~Clock{0};
  enum Kind : uint8_t { kStore, kAtomicOp, kCopy, kBulk };
  struct Write {
    Clock clock = 0;  // 0: no write
    uint16_t agent = 0;
    uint8_t bytes = 0;  // bit i: byte i of the word
    Kind kind = kStore;
    int32_t line = 0;
  };
  // The last read of a word by the lanes of a warp.
  struct Read {
    // Value of `lane` if several lanes read at the same clock.
    static constexpr uint32_t kSeveral = 32;
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

  // Calls `each` for the words of the range until a call finds a race.
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
  ZeroArray<Write> writes_;        // one per word
  ZeroArray<Read> reads_;          // one per word and warp
  ZeroArray<Clock> remote_reads_;  // one per word, as a number of ArriveClusters
  Clock last_remote_read_ = 0;
  // One per thread: agent and clock of the last write that the thread was found to know.
  std::vector<uint64_t> known_writes_;
  // The clocks at which a thread called FenceBulk, and its knowledge at the last call.
  struct Fences {
    std::vector<Clock> clocks;
    std::shared_ptr<const ClockVector> known;
  };
  std::array<std::vector<Fences>, 2> fences_;  // indices: memory, thread
  std::string race_;
};

}  // namespace incipit::emulator
