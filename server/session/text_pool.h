// A few threads for work on text, so that a megabyte of prompt stalls neither gRPC's threads nor
// health checks. The queue is bounded: who does not fit is told so at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace incipit {

class TextPool {
 public:
  using Task = absl::AnyInvocable<void()>;

  TextPool(int32_t num_threads, int32_t queue_max);
  ~TextPool();  // runs what is queued, then stops

  // Thread-safe, does not block. False, with `task` not taken, if the queue is full.
  [[nodiscard]] bool Run(Task&& task);

 private:
  void Work();

  const size_t queue_max_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace incipit
