#include "tier/io_queues.h"

#include <utility>

#include "base/check.h"

namespace incipit {

IoQueues::IoQueues(uint32_t num_slots) : loads_(num_slots), stores_(num_slots) {
  controls_.reserve(64);
  completions_.reserve(2 * size_t{num_slots} + 64);
}

void IoQueues::PushLoad(uint32_t slot) {
  MutexLock lock(mutex_);
  loads_.Push(slot);
  load_arrived_.notify_one();
}

void IoQueues::PushStore(const StoreJob& job) {
  MutexLock lock(mutex_);
  stores_.Push(job);
  writer_job_arrived_.notify_one();
}

void IoQueues::PushControl(ControlJob job) {
  MutexLock lock(mutex_);
  controls_.push_back(std::move(job));
  writer_job_arrived_.notify_one();
}

void IoQueues::TakeCompletions(std::vector<Completion>& completions) {
  INCIPIT_CHECK(completions.empty());
  if (!has_completions_.load(std::memory_order_acquire)) return;
  MutexLock lock(mutex_);
  completions_.swap(completions);
  has_completions_.store(false, std::memory_order_relaxed);
}

std::optional<IoQueues::WriterJob> IoQueues::NextWriterJob(bool takes_stores, Time deadline) {
  MutexLock lock(mutex_);
  while (true) {
    if (!controls_.empty()) {
      WriterJob job = {.control = std::move(controls_.front()), .store = {}};
      controls_.erase(controls_.begin());
      return job;
    }
    if (stopped()) return std::nullopt;
    if (takes_stores && !stores_.empty()) {
      return WriterJob{.control = std::nullopt, .store = stores_.Pop()};
    }
    if (deadline == kNoDeadline) {
      writer_job_arrived_.wait(mutex_);
    } else if (writer_job_arrived_.wait_until(mutex_, deadline) == std::cv_status::timeout) {
      return std::nullopt;
    }
  }
}

bool IoQueues::NextLoads(bool waits, size_t num_max, std::vector<uint32_t>& slots) {
  MutexLock lock(mutex_);
  while (waits && loads_.empty() && !stopped()) load_arrived_.wait(mutex_);
  while (!loads_.empty() && slots.size() < num_max) slots.push_back(loads_.Pop());
  return !stopped();
}

void IoQueues::Complete(Completion completion, bool wakes) {
  {
    MutexLock lock(mutex_);
    completions_.push_back(std::move(completion));
    has_completions_.store(true, std::memory_order_release);
  }
  if (!wakes) return;
  MutexLock lock(wake_mutex_);
  if (wake_) wake_();
}

void IoQueues::SetWake(std::function<void()> wake) {
  MutexLock lock(wake_mutex_);
  wake_ = std::move(wake);
}

void IoQueues::Stop() {
  SetWake(nullptr);
  MutexLock lock(mutex_);
  stopped_ = true;
  load_arrived_.notify_all();
  writer_job_arrived_.notify_all();
}

}  // namespace incipit
