// The metrics that the server publishes for Prometheus. docs/operations.md lists every metric, and
// a test compares the list with the published metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/host_port.h"
#include "base/types.h"
#include "engine/engine.h"
#include "server/session/reason.h"

namespace incipit {

class MetricsEndpoint;

struct MetricsOptions {
  bool vllm_names = false;  // publish values also under the names of vLLM
};

// The values of incipit_model_info and of other metrics that describe the model. All values come
// from the operator or the model, never from a client.
struct ModelMetrics {
  std::string name, architecture, dtype, kv_dtype;
  std::string backend;  // name of the backend: "cpu" or "cuda"
  int32_t max_model_len = 0;
  int32_t block_size = 0, num_blocks = 0;
};

// The result of an accepted request. A time is absent if the request ended before that phase.
struct RequestOutcome {
  // The most severe finish reason of all choices. If all choices ended with kStop or kLength, the
  // finish reason of the last choice that ended.
  FinishReason finish = FinishReason::kError;
  double total_seconds = 0;  // time from arrival to the end of the request
  // Time from the first step that computed tokens for the request to the first output token.
  std::optional<double> prefill_seconds;
  std::optional<double> decode_seconds;  // time from first to last output token
};

// Counts events, and serves the counts over HTTP on a separate thread. The functions that count
// (OnStep, OnGeneratedTokens, ...) are thread-safe, take no lock and allocate no memory. A scrape
// does not wait for a step of the engine. The number of time series is fixed, because no label has
// a value from a client.
class Metrics {
 public:
  explicit Metrics(MetricsOptions options);
  ~Metrics();  // stops the HTTP server
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Sets the values of the metrics that describe the model. REQUIRES: Start has not been called.
  void SetModelInfo(const ModelMetrics& model);

  // Sets the function that returns the load of the engine. Each scrape calls `source`, which must
  // be thread-safe and must not wait for a step. If `source` is empty, later scrapes report the
  // last known load. The source must be reset before the engine is destroyed.
  void SetLoadSource(std::function<EngineLoad()> source);

  // Counts the queue times, prompt tokens, cache events and times of one step. Called by the engine
  // thread.
  void OnStep(const StepEvents& events);
  // Counts output tokens. Tokens that the engine samples after a stop string are not counted.
  void OnGeneratedTokens(int64_t num_tokens);

  // Counts a request that was refused before the engine accepted the request.
  void OnRequestRejected(Reason reason);
  // Records the time to the first token. Called once per request that has an output token.
  void OnFirstToken(double seconds_since_arrival);
  // Records `num_tokens` tokens, each of which followed the previous token after `seconds`.
  void OnInterTokenLatency(double seconds, int64_t num_tokens);
  // Counts the end of an accepted request.
  void OnRequestFinished(const RequestOutcome& outcome);

  // Starts to serve http://`address`/metrics and returns the port. If the port of `address` is 0,
  // the system chooses a free port. Returns UNAVAILABLE if `address` cannot be bound.
  absl::StatusOr<int> Start(const HostPort& address);

  // Returns the metrics in the text format of Prometheus, as /metrics serves the metrics.
  std::string Text() const;

 private:
  class State;
  std::unique_ptr<State> state_;
  std::unique_ptr<MetricsEndpoint> endpoint_;
};

}  // namespace incipit
