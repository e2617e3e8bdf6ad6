// The figures about the load of the server by which a gateway chooses a worker.
#pragma once

#include <vllm/grpc/engine/vllm_engine.pb.h>

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "server/gateway/kv_event_hub.h"
#include "server/metrics/metrics.h"

namespace incipit {

struct LoadFigures {
  EngineLoad engine;
  int64_t num_used_tokens = 0, num_tokens_max = 0;  // capacity of the cache blocks in tokens
  double token_usage = 0;                           // `num_used_tokens` / `num_tokens_max`
  double tokens_per_second = 0;                     // output tokens per second
  double cache_hit_rate = 0;  // share of prompt tokens that were found in the cache
};

// Reads the load of the engine and measures the rate of output tokens. Thread-safe. REQUIRES:
// `engine`, `metrics` and `clock` outlive the LoadMeter.
class LoadMeter {
 public:
  LoadMeter(const Engine& engine, const Metrics& metrics, const Clock& clock)
      : engine_(engine), metrics_(metrics), clock_(clock) {
    previous_.time = latest_.time = clock.Now();
  }

  // Returns the present figures. The rate of output tokens is the mean since an earlier call, at
  // least one second ago, or since the start of the server.
  LoadFigures Read();

 private:
  struct Sample {
    Time time{};
    int64_t num_tokens = 0;  // number of output tokens since the start of the server
  };
  // Returns the number of output tokens per second.
  double Rate();

  const Engine& engine_;
  const Metrics& metrics_;
  const Clock& clock_;
  Mutex mutex_;
  // The two latest samples that are at least one second apart.
  Sample previous_ ABSL_GUARDED_BY(mutex_), latest_ ABSL_GUARDED_BY(mutex_);
};

// Sets the fields of `out` to `figures`. `running_max` is the maximum number of running sequences.
void FillLoad(const LoadFigures& figures, int32_t running_max,
              vllm::grpc::engine::SchedulerLoad& out);

// Returns `figures` for the subscribers of the prefix cache's events. The status is an error if the
// server drains or the engine has failed.
KvLoad KvLoadOf(const LoadFigures& figures, int32_t running_max);

}  // namespace incipit
