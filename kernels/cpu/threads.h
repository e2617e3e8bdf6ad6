// Manages the OpenMP threads of the CPU backend. After an operation, the threads first wait in a
// loop that uses CPU time, and later sleep (docs/operations.md).
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <thread>

namespace incipit {

class Threads {
 public:
  explicit Threads(int32_t count, bool pins = false) : count_(count), pins_(pins) {}

  int32_t count() const { return count_; }

  // Sets the number of OpenMP threads that operations of the calling thread use.
  void UseForCallingThread() const {
    if (omp_get_max_threads() != count_) omp_set_num_threads(count_);
  }

  // If pinning was requested: binds the calling thread and each thread of the pool to one CPU. Two
  // threads share a CPU only if there are more threads than CPUs. REQUIRES: the same thread calls
  // all later functions of the backend.
  void PinOnce() {
    if (pins_ && pinned_for_ != std::this_thread::get_id()) Pin();
  }

  // Divides [0, size) into one contiguous range [begin, end) for each thread, and calls f(begin,
  // end, thread) on each thread. `work`: approximate number of multiplications. If `work` is small,
  // the calling thread processes all of [0, size).
  template <class F>
  void ForParts(int64_t size, int64_t work, const F& f) const {
    if (count_ == 1 || size == 1 || work < kWorkMin) {
      if (size > 0) f(int64_t{0}, size, 0);
      return;
    }
    // The number of threads is the same for every operation. Otherwise OpenMP would end threads and
    // start new threads.
#pragma omp parallel num_threads(count_)
    {
      const int64_t thread = omp_get_thread_num(), num_threads = omp_get_num_threads();
      const int64_t begin = size * thread / num_threads;
      const int64_t end = size * (thread + 1) / num_threads;
      if (begin < end) f(begin, end, static_cast<int32_t>(thread));
    }
  }

  // Calls f(index, thread) for each index in [0, size). A thread that has finished a call fetches
  // the next index, in ascending order.
  template <class F>
  void ForEach(int64_t size, int64_t work, const F& f) const {
    if (count_ == 1 || size == 1 || work < kWorkMin) {
      for (int64_t i = 0; i < size; ++i) f(i, 0);
      return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(count_)
    for (int64_t i = 0; i < size; ++i) f(i, static_cast<int32_t>(omp_get_thread_num()));
  }

 private:
  // Minimum number of multiplications for which several threads are used. One core needs some
  // microseconds for this number of multiplications.
  static constexpr int64_t kWorkMin = 32768;

  void Pin();

  int32_t count_;
  bool pins_;
  std::thread::id pinned_for_;
};

}  // namespace incipit
