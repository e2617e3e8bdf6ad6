// What the server says about itself to Prometheus. Without it nobody sees a queue grow or a cache
// miss. Every name is listed in docs/operations.md, and a test holds the two together.
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
  bool vllm_names = false;  // --metrics-compat vllm: the same values also under vllm:...
};

// What the labels of the info metrics say. The operator's values, never a client's.
struct ModelMetrics {
  std::string name, architecture, dtype, kv_dtype;
  std::string backend;  // cpu, cuda
  int32_t max_model_len = 0;
  int32_t block_size = 0, num_blocks = 0;
};

// How a request that was accepted ended. Times are absent where the request never got that far.
struct RequestOutcome {
  FinishReason finish = FinishReason::kError;  // of the choice that ended last
  double total_seconds = 0;                    // from arrival
  std::optional<double>
      prefill_seconds;  // from the first step that computed for it to its first token
  std::optional<double> decode_seconds;  // from its first token to its last
};

// Counts on any thread without a lock and without allocating, and serves what was counted over HTTP
// from threads of its own, so that a scrape neither waits for the engine nor disturbs it. The
// number of series is fixed when it is made: no label takes a value that a client chooses.
class Metrics {
 public:
  explicit Metrics(MetricsOptions options);
  ~Metrics();  // stops serving
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Before Start.
  void SetModelInfo(const ModelMetrics& model);

  // Asked at each scrape for what the engine holds just now: requests waiting and running, blocks.
  // Thread-safe, and must not wait for a step. Empty takes it back, which has to happen before the
  // engine goes; a scrape after that shows the last answer.
  void SetLoadSource(std::function<EngineLoad()> source);

  // Queue times, prompt token, cache and step counts of one step. On the engine's thread.
  void OnStep(const StepEvents& events);
  // Tokens of answers. The engine may draw more, until it hears that a stop string was complete.
  void OnGeneratedTokens(int64_t num_tokens);

  // A request that was refused before the engine took it.
  void OnRequestRejected(Reason reason);
  // Once per accepted request.
  void OnFirstToken(double seconds_since_arrival);
  // `num_tokens` tokens that came `seconds` after the token before each of them.
  void OnInterTokenLatency(double seconds, int64_t num_tokens);
  void OnRequestFinished(const RequestOutcome& outcome);

  // Serves http://`address`/metrics; returns the port, which it picks where `address` says 0.
  // UNAVAILABLE if `address` cannot be bound.
  absl::StatusOr<int> Start(const HostPort& address);

  // The exposition text, as /metrics serves it.
  std::string Text() const;

 private:
  class State;
  std::unique_ptr<State> state_;
  std::unique_ptr<MetricsEndpoint> endpoint_;
};

}  // namespace incipit
