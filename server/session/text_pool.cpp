#include "server/session/text_pool.h"

#include <utility>

namespace incipit {

TextPool::TextPool(int32_t num_threads, int32_t queue_max)
    : queue_max_(static_cast<size_t>(queue_max)) {
  for (int32_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Work(); });
}

TextPool::~TextPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool TextPool::Run(Task&& task) {
  {
    MutexLock lock(mutex_);
    if (queue_.size() >= queue_max_) return false;
    queue_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

void TextPool::Work() {
  while (true) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) changed_.wait(mutex_);
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace incipit
