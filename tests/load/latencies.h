// Stores the latencies of many calls, and reports their percentiles as JSON.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace incipit {

// A list of latencies. Thread-safe.
class Latencies {
 public:
  void Add(Duration latency) {
    MutexLock lock(mutex_);
    ms_.push_back(ToSeconds(latency) * 1e3);
  }

  void Clear() {
    MutexLock lock(mutex_);
    ms_.clear();
  }

  // Returns {count, p50_ms, p99_ms, max_ms}. Without any latency, returns {count} only.
  nlohmann::ordered_json Json() {
    MutexLock lock(mutex_);
    nlohmann::ordered_json json = {{"count", ms_.size()}};
    if (ms_.empty()) return json;
    std::sort(ms_.begin(), ms_.end());
    json["p50_ms"] = ms_[(ms_.size() - 1) * 50 / 100];
    json["p99_ms"] = ms_[(ms_.size() - 1) * 99 / 100];
    json["max_ms"] = ms_.back();
    return json;
  }

 private:
  Mutex mutex_;
  std::vector<double> ms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
