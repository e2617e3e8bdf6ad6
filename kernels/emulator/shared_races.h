// Detects unordered accesses of a block's shared memory (races). For every 4 bytes, the detector
// stores the last write and the last read of each warp. An unordered access is found even if the
// threads happened to run in a harmless order. If unordered lanes of one warp read different bytes
// of the same 4 bytes, only the last read is stored. Likewise, only the last write is stored.
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

  // ---- accesses: each function that returns a string returns a description of the race, or an
  // empty string

  // A range of bytes in shared memory.
  struct Range {
    int offset = 0;
    int bytes = 0;
  };
  std::string Touch(int thread, Range range, Access access, Site site);
  // Checks that the last write to the range happened before the current event of `thread`. Records
  // nothing.
  std::string Observe(int thread, Range range, Site site);
  // Begins an asynchronous copy of `thread` to the range. Until EndCopy, every other access of the
  // range is a race.
  std::string BeginCopy(int thread, Range range, Site site);
  void EndCopy(int thread, Range range);
  // Begins a read of the range by a warpgroup instruction of the warp of `thread`. A thread that
  // wrote the range must have called FenceBulk after the write; writes by bulk copies need no
  // fence. Until EndMultiply, every write to the range is a race.
  std::string BeginMultiply(int thread, Range range, Site site);
  void EndMultiply(int thread, Range range);
  // Begins a bulk copy to the range, counted by mbarrier `barrier`. An access is a race unless the
  // accessing thread has waited for phase `phase` (counted from 1) of the barrier.
  std::string BeginBulk(int thread, Range range, int barrier, Clock phase, Site site);
  // Records a fence of `thread`. After the fence, a bulk copy or warpgroup instruction may access
  // bytes of `memory` that threads accessed before the fence.
  void FenceBulk(int thread, Memory memory);
  bool IsFenced(int thread, int agent, Clock clock, Memory memory) const;
  // Records a read of the range by a thread of another block. The read is a race unless the last
  // write to the range happened before the last complete barrier of the cluster.
  std::string ReadRemotely(Range range, Site site);
  // Returns true if another block may still be reading, because the other block has not called
  // ArriveCluster since its last read.
  bool IsReadRemotely() const { return last_remote_read_ > clocks_.ClusterArrivals(); }

 private:
  static constexpr Clock kInFlight = ~Clock{0};
  enum Kind : uint8_t { kStore, kAtomicOp, kCopy, kBulk };
  struct Write {
    Clock clock = 0;  // clock of the write; 0: no write
    uint16_t agent = 0;
    uint8_t bytes = 0;  // bit i is set if byte i of the word was written
    Kind kind = kStore;
    int32_t line = 0;
  };
  // The last read of a word (4 bytes) by the lanes of one warp.
  struct Read {
    // Value of `lane` if several lanes read the word at the same clock.
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

  // Calls `each` for each word of the range (4 bytes) until a call returns false, which means a
  // race. Returns the description of the race, or an empty string.
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
  ZeroArray<Write> writes_;  // element i: the last write to word i
  ZeroArray<Read> reads_;    // element i * num_warps_ + j: the last read of word i by warp j
  // Element i is the number of the ArriveCluster that ends the last read of word i by another
  // block.
  ZeroArray<Clock> remote_reads_;
  Clock last_remote_read_ = 0;
  // Element i is a write that happened before the current event of thread i: the agent in the high
  // 32 bits, the clock in the low 32 bits.
  std::vector<uint64_t> known_writes_;
  // The clocks at which a thread called FenceBulk, and the events that the thread knew at its last
  // call.
  struct Fences {
    std::vector<Clock> clocks;
    std::shared_ptr<const ClockVector> known;
  };
  std::array<std::vector<Fences>, 2> fences_;  // indices: [Memory][thread]
  std::string race_;
};

}  // namespace incipit::emulator
