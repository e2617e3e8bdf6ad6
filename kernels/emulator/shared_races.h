// Detects data races in the shared memory of a thread block: accesses of the same bytes, at least
// one of them a write, whose order is not defined.
//
// For every 4 bytes, only the latest write and the latest read of each warp are stored. A race with
// an older access may be missed.
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

  // ---- Memory accesses. Each function that returns a string returns a description of the race, or
  // an empty string if there is no race.

  // A range of bytes in the shared memory of the thread block.
  struct Range {
    int offset = 0;
    int bytes = 0;
  };
  std::string Touch(int thread, Range range, Access access, Site site);
  // Checks that a read of `range` by `thread` is not a race. Does not record the read.
  std::string Observe(int thread, Range range, Site site);
  // Records that `thread` starts an asynchronous copy to `range`. Until EndCopy(), every other
  // access of `range` is a race.
  std::string BeginCopy(int thread, Range range, Site site);
  void EndCopy(int thread, Range range);
  // Records that the warp of `thread` starts an asynchronous matrix product, which reads `range`.
  // Until EndMultiply(), every write to `range` is a race.
  std::string BeginMultiply(int thread, Range range, Site site);
  void EndMultiply(int thread, Range range);
  // Records a bulk copy to `range`. An access of `range` is a race until the thread has waited for
  // phase `phase` (counted from 1) of mbarrier `barrier`.
  std::string BeginBulk(int thread, Range range, int barrier, Clock phase, Site site);
  // Records a call of FenceBulk() by `thread`. Only after this call may bulk copies and warpgroup
  // matrix products access bytes of `memory` (global or shared) that threads have accessed before.
  void FenceBulk(int thread, Memory memory);
  bool IsFenced(int thread, int agent, Clock clock, Memory memory) const;
  // Checks and records a read of `range` by another thread block. The read is a race if this thread
  // block has written to `range` since the latest barrier of the cluster.
  std::string ReadRemotely(Range range, Site site);
  // Returns true if another thread block has read this thread block's shared memory since the
  // latest barrier of the cluster.
  bool IsReadRemotely() const { return last_remote_read_ > clocks_.ClusterArrivals(); }

 private:
  static constexpr Clock kInFlight = ~Clock{0};
  enum Kind : uint8_t { kStore, kAtomicOp, kCopy, kBulk };
  struct Write {
    Clock clock = 0;  // clock value of the thread at the write; 0: no write
    uint16_t agent = 0;
    uint8_t bytes = 0;  // bit i is set if byte i of the word (4 bytes) was written
    Kind kind = kStore;
    int32_t line = 0;
  };
  // The latest read of a word (4 bytes of shared memory) by one warp.
  struct Read {
    // Special value of `lane`: more than one lane of the warp has read the word at this clock
    // value.
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

  // Calls each(word) for each word (4 bytes) of `range`. If a call returns false (a race), returns
  // the description of the race, otherwise an empty string.
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
  ZeroArray<Write> writes_;  // element i: the latest write to word i (4 bytes) of shared memory
  // Element i * num_warps_ + j is the latest read of word i (4 bytes of shared memory) by warp j.
  ZeroArray<Read> reads_;
  // Element i: 1 plus the value of Clocks::ClusterArrivals() at the latest read of word i (4 bytes)
  // by another thread block. 0: there was no such read.
  ZeroArray<Clock> remote_reads_;
  Clock last_remote_read_ = 0;
  // Cache of KnowsWrite(). Element i: the latest write for which a check of thread i found no race.
  // High 32 bits: the writer. Low 32 bits: the clock value of the write.
  std::vector<uint64_t> known_writes_;
  // The calls of FenceBulk() by one thread.
  struct Fences {
    std::vector<Clock> clocks;
    std::shared_ptr<const ClockVector> known;
  };
  std::array<std::vector<Fences>, 2> fences_;  // indices: [Memory][thread]
  std::string race_;
};

}  // namespace incipit::emulator
