// Measures the load of the server. A gateway uses the figures to choose one of several servers for
// a request.
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
  // Capacity in tokens of the cache blocks that requests use, and of all cache blocks.
  int64_t num_used_tokens = 0, num_tokens_max = 0;
  double token_usage = 0;        // `num_used_tokens` divided by `num_tokens_max`
  double tokens_per_second = 0;  // output tokens of all requests per second
  // Share of the prompt tokens of the last minute that were found in the prefix cache, from 0 to 1.
  double cache_hit_rate = 0;
};

// Reads the load of the engine and measures the rate of output tokens. Thread-safe. REQUIRES:
// `engine`, `metrics` and `clock` outlive the LoadMeter.
class LoadMeter {
 public:
  LoadMeter(const Engine& engine, const Metrics& metrics, const Clock& clock)
      : engine_(engine), metrics_(metrics), clock_(clock) {
    previous_.time = latest_.time = clock.Now();
  }

  // Returns the present load. The rate of output tokens is the mean over at least the last second.
  // During the first second, the rate is the mean since the construction of the LoadMeter.
  LoadFigures Read();

 private:
  struct Sample {
    Time time{};
    int64_t num_tokens = 0;  // number of output tokens since the start of the server
  };
  // Updates `previous_` and `latest_`. Returns the mean number of output tokens per second since
  // `previous_`.
  double Rate();

  const Engine& engine_;
  const Metrics& metrics_;
  const Clock& clock_;
  Mutex mutex_;
  // Two samples of the number of output tokens. Read takes a new sample at most once per second.
  Sample previous_ ABSL_GUARDED_BY(mutex_), latest_ ABSL_GUARDED_BY(mutex_);
};

// Writes `figures` to the message `out`. `running_max` is the maximum number of sequences that run
// at the same time.
void FillLoad(const LoadFigures& figures, int32_t running_max,
              vllm::grpc::engine::SchedulerLoad& out);

// Converts `figures` to the load record for gateways that receive the changes of the prefix cache.
// The status in the record is an error if the server drains (accepts no new requests) or the engine
// has failed. `running_max` is the maximum number of sequences that run at the same time.
KvLoad KvLoadOf(const LoadFigures& figures, int32_t running_max);

}  // namespace incipit
