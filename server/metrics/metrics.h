// The metrics that the server publishes for Prometheus. docs/operations.md lists every metric, and
// a test compares the list with the published metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/host_port.h"
#include "base/types.h"
#include "engine/engine.h"
#include "server/session/request/reason.h"
#include "tier/tier_stats.h"

namespace incipit {

class HttpServer;

// A reader of the prefix cache's events that was too slow and lost events. kHub: the thread of the
// server that passes the events to gateways. kSubscriber: a gateway.
enum class KvEventGap : uint8_t { kHub, kSubscriber };
inline constexpr size_t kNumKvEventGaps = 2;

// Value of the label `tenant` for all tenants that are not reported separately.
inline constexpr std::string_view kOtherTenants = "other";

struct MetricsOptions {
  bool vllm_names = false;  // true: metrics are also published under the metric names of vLLM
};

// Properties of the served model, which metrics such as incipit_model_info report. The values are
// from the operator or the model, never from a client.
struct ModelMetrics {
  std::string name, architecture, dtype, kv_dtype;
  std::string backend;  // name of the backend: "cpu" or "cuda"
  int32_t max_model_len = 0;
  int32_t block_size = 0, num_blocks = 0;
};

// Numbers of tokens and choices (outputs) of a request that the engine accepted.
struct RequestSizes {
  int32_t num_prompt_tokens = 0;
  int32_t num_choices = 1;
  int32_t output_tokens_max = 0;      // limit of the number of output tokens per choice
  int64_t num_output_tokens = 0;      // number of output tokens of all choices
  int64_t longest_output_tokens = 0;  // number of output tokens of the choice with the most tokens
};

// The end of a request that the server did not refuse: finish reason, times and sizes.
struct RequestOutcome {
  // The most severe finish reason of all choices (outputs). kError is the most severe, then
  // kDeadline and kTooLate, then kCancelled. If every choice ended with kStop or kLength: the
  // reason of the choice that ended last.
  FinishReason finish = FinishReason::kError;
  double total_seconds = 0;  // time from the arrival of the request to its end
  // Time from the first step (batch) that computed tokens for the request to the first output
  // token. Absent if the request has no output token.
  std::optional<double> prefill_seconds = {};
  // Time from the first output token to the last output token. Absent if the request has no output
  // token.
  std::optional<double> decode_seconds = {};
  // Mean time between two consecutive output tokens of the same choice (output). Absent if no
  // choice has two tokens.
  std::optional<double> inter_token_seconds = {};
  // Numbers of tokens and choices (outputs) of the request. Absent if the engine had not accepted
  // the request when the request ended.
  std::optional<RequestSizes> sizes = {};
};

// Size in bytes of the output that clients have not read yet, by the state of the output.
struct UnreadOutput {
  // Bytes of output that wait in the server until the client has read earlier output.
  int64_t num_waiting_bytes = 0;
  // Bytes of output that the server keeps until a response over HTTP or to a gateway is complete.
  int64_t num_kept_bytes = 0;
  // Bytes of HTTP responses that the operating system has not accepted for sending yet.
  int64_t num_sending_bytes = 0;
};

// Counts events of the server, and publishes the counts over HTTP. The functions that count events
// (OnStep, OnGeneratedTokens, ...) are thread-safe, take no lock and allocate no memory. Labels of
// metrics never contain data from clients.
class Metrics {
 public:
  static constexpr int32_t kScrapersMax = 64;

  explicit Metrics(MetricsOptions options);
  ~Metrics();  // stops the HTTP server
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Sets the labels and values of the metrics that describe the model, such as incipit_model_info.
  // REQUIRES: Start has not been called.
  void SetModelInfo(const ModelMetrics& model);

  // Sets the values of the label `tenant` for the tenants in ShareOptions::reported. REQUIRES:
  // `names` has the order of ShareOptions::reported; Start has not been called; no name is
  // kOtherTenants.
  void SetReportedTenants(std::vector<std::string> names);

  // Sets the function that returns the load of the engine. Any thread may call `source`. Before the
  // engine is destroyed, the caller must call SetLoadSource(nullptr). The metrics then report the
  // last load.
  void SetLoadSource(std::function<EngineLoad()> source);
  // Sets the function that returns the size of the output that clients have not read. Any thread
  // may call `source`. Before an object that `source` uses is destroyed, the caller must call
  // SetUnreadSource(nullptr).
  void SetUnreadSource(std::function<UnreadOutput()> source);
  // Sets the function that returns the counters of the disk cache. Any thread may call `source`.
  // Before the disk cache is destroyed, the caller must call SetDiskCacheSource(nullptr).
  void SetDiskCacheSource(std::function<TierStats()> source);

  // Adds the events of one step (batch) of the engine to the metrics. Called by the engine thread.
  void OnStep(const StepEvents& events);
  // Adds `num_tokens` to the number of output tokens. Tokens after a stop string are not counted.
  void OnGeneratedTokens(int64_t num_tokens);

  // Returns the number of output tokens since the start of the server.
  int64_t num_generated_tokens() const;

  // Returns the number of blocks that were evicted from the prefix cache since the start of the
  // server, for all reasons together.
  int64_t num_evicted_blocks() const;
  // Returns the number of blocks that were computed again soon after their eviction, since the
  // start of the server.
  int64_t num_regret_blocks() const;

  // Sets the number of gateways that have subscribed to the events of the prefix cache.
  void SetKvEventSubscribers(int64_t num_subscribers);
  // Counts one loss of prefix cache events. `gap` says which reader was too slow and lost the
  // events.
  void OnKvEventGap(KvEventGap gap);

  // Counts a request of `tenant` that the server refused because of `reason`. `tenant` is empty if
  // the server does not know the tenant.
  void OnRequestRejected(Reason reason, std::string_view tenant = {});
  // Records the time from the arrival of a request to its first output token. Called at most once
  // per request.
  void OnFirstToken(double seconds_since_arrival);
  // Adds the time `seconds` between two consecutive tokens of a choice (output) to the histogram of
  // these times, `num_tokens` times.
  void OnInterTokenLatency(double seconds, int64_t num_tokens);
  // Counts the end of a request that the server did not refuse.
  void OnRequestFinished(const RequestOutcome& outcome);

  // Starts an HTTP server that returns the metrics at http://`address`/metrics, and returns its
  // port. If the port of `address` is 0, the system chooses a free port. The server has at most
  // kScrapersMax open connections. For one more connection, the server closes the oldest connection
  // without a request in progress. Returns UNAVAILABLE if the server cannot listen at `address`.
  absl::StatusOr<int> Start(const HostPort& address);

  // Returns the text of all metrics in the format of Prometheus.
  std::string Text() const;

 private:
  class State;
  std::unique_ptr<State> state_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace incipit
