// The CPU backend's threads: OpenMP's pool, which oneDNN shares. Between two operations of a step
// they spin for a moment; left alone they sleep (docs/operations.md says after how long).
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

  // oneDNN asks OpenMP how many threads to use, and the answer belongs to the calling thread.
  void UseForCallingThread() const {
    if (omp_get_max_threads() != count_) omp_set_num_threads(count_);
  }

  // Where asked for, keeps the calling thread, which drives the backend from now on, and those that
  // help it on a CPU each, of those that it may use, in turn.
  void PinOnce() {
    if (pins_ && pinned_for_ != std::this_thread::get_id()) Pin();
  }

  // f(begin, end, thread) on contiguous parts of [0, size), one for each thread. `work` is about
  // the number of multiplications in all: little of it is not worth waking anybody for.
  template <class F>
  void ForParts(int64_t size, int64_t work, const F& f) const {
    if (count_ == 1 || size == 1 || work < kWorkMin) {
      if (size > 0) f(int64_t{0}, size, 0);
      return;
    }
    // A team of another size would make OpenMP end threads and start new ones.
#pragma omp parallel num_threads(count_)
    {
      const int64_t thread = omp_get_thread_num(), num_threads = omp_get_num_threads();
      const int64_t begin = size * thread / num_threads;
      const int64_t end = size * (thread + 1) / num_threads;
      if (begin < end) f(begin, end, static_cast<int32_t>(thread));
    }
  }

  // f(index, thread) for each of [0, size), taken by whoever is free, in order.
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
  static constexpr int64_t kWorkMin = 32768;  // some microseconds on one core

  void Pin();

  int32_t count_;
  bool pins_;
  std::thread::id pinned_for_;
};

}  // namespace incipit
