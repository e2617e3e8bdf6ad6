// The threads of the CPU backend: the OpenMP thread pool, which oneDNN also uses. Between two
// operations of a step the threads spin. If no operation follows, the threads fall asleep after the
// time that docs/operations.md states.
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

  // Sets the number of OpenMP threads for the calling thread, because oneDNN uses that number and
  // OpenMP stores it per calling thread.
  void UseForCallingThread() const {
    if (omp_get_max_threads() != count_) omp_set_num_threads(count_);
  }

  // If pinning was requested, binds the calling thread and the pool's threads to one CPU each. The
  // allowed CPUs are used in turn. The calling thread must be the one that calls the backend from
  // now on.
  void PinOnce() {
    if (pins_ && pinned_for_ != std::this_thread::get_id()) Pin();
  }

  // Calls f(begin, end, thread) for one contiguous part of [0, size) per thread. `work` is the
  // approximate number of multiplications in all parts. If `work` is small, the calling thread does
  // everything, because waking threads would cost more.
  template <class F>
  void ForParts(int64_t size, int64_t work, const F& f) const {
    if (count_ == 1 || size == 1 || work < kWorkMin) {
      if (size > 0) f(int64_t{0}, size, 0);
      return;
    }
    // Always uses count_ threads: for a team of another size, OpenMP would end threads and start
    // new ones.
#pragma omp parallel num_threads(count_)
    {
      const int64_t thread = omp_get_thread_num(), num_threads = omp_get_num_threads();
      const int64_t begin = size * thread / num_threads;
      const int64_t end = size * (thread + 1) / num_threads;
      if (begin < end) f(begin, end, static_cast<int32_t>(thread));
    }
  }

  // Calls f(index, thread) for each index of [0, size). Free threads take the indices in ascending
  // order.
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
  static constexpr int64_t kWorkMin = 32768;  // multiplications; some microseconds on one core

  void Pin();

  int32_t count_;
  bool pins_;
  std::thread::id pinned_for_;
};

}  // namespace incipit
