// The load figures that the engine thread publishes after each step.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "engine/engine.h"
#include "kvcache/kv_cache_manager.h"
#include "scheduler/expected_wait.h"
#include "scheduler/scheduler.h"

namespace incipit {

// Writes the present figures of `scheduler` and `cache` to `load`. Leaves the other members
// unchanged.
void FillLoad(const Scheduler& scheduler, const KvCacheManager& cache, EngineLoad& load);

// Publishes the expected wait: the predicted time from the arrival of a new request to its first
// token. The time is computed from the latest forecast and the present queue. Any thread may call
// value(). A mutex of the caller must protect the calls of all other functions.
class PublishedWait {
 public:
  // Sets the forecast, and the length of the queue: `num_waiting` waiting sequences, whose prompts
  // have `num_prompt_tokens` tokens together.
  void Set(const WaitForecast& forecast, int64_t num_waiting, int64_t num_prompt_tokens);
  // Adds a request with `num_prompt_tokens` prompt tokens to the queue.
  void AddRequest(int64_t num_prompt_tokens) {
    Set(forecast_, num_waiting_ + 1, num_prompt_tokens_ + num_prompt_tokens);
  }

  // Returns the expected wait, or nullopt if the wait is not known yet. Takes no lock.
  std::optional<Duration> value() const {
    const Duration wait(wait_.load(std::memory_order_relaxed));
    return wait == kUnknown ? std::nullopt : std::optional(wait);
  }

 private:
  static constexpr Duration kUnknown = Duration::max();

  WaitForecast forecast_;
  int64_t num_waiting_ = 0, num_prompt_tokens_ = 0;
  std::atomic<Duration::rep> wait_{kUnknown.count()};
};

}  // namespace incipit
