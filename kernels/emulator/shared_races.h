// Detects races: accesses of a block's shared memory whose order is not defined. A race is detected
// even if the threads happened to run in an order without an error.
//
// For every 4 bytes of shared memory, the detector stores only the latest write, and the latest
// read of each warp. A race with an access that is not stored may be missed.
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

  // ---- accesses: the functions return a description of the race, or an empty string if there is
  // none

  // A range of bytes in the shared memory of the block.
  struct Range {
    int offset = 0;
    int bytes = 0;
  };
  std::string Touch(int thread, Range range, Access access, Site site);
  // Checks a read of `range` by `thread`: the latest write to `range` must have happened before the
  // current event of `thread`. Does not record the read.
  std::string Observe(int thread, Range range, Site site);
  // Begins an asynchronous copy of `thread` that writes to `range`. Until EndCopy, every other
  // access of `range` is a race.
  std::string BeginCopy(int thread, Range range, Site site);
  void EndCopy(int thread, Range range);
  // Begins a read of `range` by a MultiplyAddWarpgroup in the warp of `thread`. Until EndMultiply,
  // every write to `range` is a race. A thread that wrote to `range` must have called FenceBulk
  // after the write.
  std::string BeginMultiply(int thread, Range range, Site site);
  void EndMultiply(int thread, Range range);
  // Begins a bulk copy to `range`, whose bytes mbarrier `barrier` counts. A later access of `range`
  // is a race unless its thread has waited for phase `phase` (counted from 1) of the mbarrier.
  std::string BeginBulk(int thread, Range range, int barrier, Clock phase, Site site);
  // Records a call of FenceBulk by `thread`. After the call, bulk copies and MultiplyAddWarpgroup
  // may access the bytes of `memory` (global or shared memory) that threads accessed before the
  // call.
  void FenceBulk(int thread, Memory memory);
  bool IsFenced(int thread, int agent, Clock clock, Memory memory) const;
  // Checks and records a read of `range` by a thread of another block. The read is a race unless
  // the latest write to `range` happened before the latest barrier that all blocks of the cluster
  // reached.
  std::string ReadRemotely(Range range, Site site);
  // Returns true if another block has read this block's shared memory, and has not called
  // ArriveCluster since then.
  bool IsReadRemotely() const { return last_remote_read_ > clocks_.ClusterArrivals(); }

 private:
  static constexpr Clock kInFlight = ~Clock{0};
  enum Kind : uint8_t { kStore, kAtomicOp, kCopy, kBulk };
  struct Write {
    Clock clock = 0;  // number of the write's event; 0: no write
    uint16_t agent = 0;
    uint8_t bytes = 0;  // bit i is set if byte i of the word (4 bytes) was written
    Kind kind = kStore;
    int32_t line = 0;
  };
  // The latest read of a word (4 bytes of shared memory) by a lane of one warp.
  struct Read {
    // Value of the member `lane` if several lanes of the warp read the word in the same event.
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

  // Calls each(word) for each word (4 bytes) of `range`. Stops when a call returns false, which
  // means a race. Returns the description of the race, or an empty string if there is no race.
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
  ZeroArray<Write> writes_;  // element i: the latest write to word i of shared memory
  // Element i * num_warps_ + j is the latest read of word i of shared memory by warp j.
  ZeroArray<Read> reads_;
  // Element i describes the latest read of word i (4 bytes) by another block of the cluster: the
  // read has ended when the number of ArriveCluster calls has reached the value of element i.
  ZeroArray<Clock> remote_reads_;
  Clock last_remote_read_ = 0;
  // Element i is a write that happened before the current event of thread i. High 32 bits: the
  // thread or copy that wrote. Low 32 bits: the event number of the write.
  std::vector<uint64_t> known_writes_;
  // The calls of FenceBulk by one thread. `clocks` holds the event number of each call, and `known`
  // the events that happened before the latest call.
  struct Fences {
    std::vector<Clock> clocks;
    std::shared_ptr<const ClockVector> known;
  };
  std::array<std::vector<Fences>, 2> fences_;  // indices: [Memory][thread]
  std::string race_;
};

}  // namespace incipit::emulator
