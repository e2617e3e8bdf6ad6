// Sends requests to a server and records the arrival time of each output token. A request starts
// when a previous request ends (closed loop) or at a planned time (open loop).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "cli/client/client.h"
#include "incipit/v1/inference.grpc.pb.h"

namespace incipit {

// The measurements of one request. `due` is the planned start of the request; in a closed loop, the
// actual start.
struct BenchRecord {
  bool is_done = false;
  std::string error;                  // empty if the request succeeded
  double first_token = 0, total = 0;  // seconds from `due` to the first token; to the end
  std::vector<double> inter_token;    // seconds between consecutive output tokens
  uint32_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double due = 0;  // planned start, in seconds since the start of the run
};

struct BenchProgress {
  int32_t num_done = 0, num_in_flight = 0, num_errors = 0;
  int64_t num_output_tokens = 0;
  double seconds = 0;  // time since the start of the run
};

struct BenchPlan {
  int32_t num_requests = 0;
  int32_t concurrency = 0;       // closed loop: requests in flight; used if `arrivals` is empty
  std::vector<double> arrivals;  // open loop: due times, in seconds since the start of the run
  std::function<v1::GenerateRequest(int32_t index)> make_request;
};

struct BenchResult {
  std::vector<BenchRecord> records;
  double seconds = 0;       // from the start of the run to the end of the last request
  int32_t concurrency = 0;  // closed loop: requests in flight; open loop: 0
};

// Runs one load test. Outputs arrive on threads of gRPC, so in an open loop a slow output does not
// delay other requests.
class BenchLoad {
 public:
  // REQUIRES: `stub` outlives this object.
  BenchLoad(v1::Inference::Stub& stub, const ClientOptions& client, BenchPlan plan);
  ~BenchLoad();

  // Sends all requests of the plan and returns after the last request has ended. If `report` is
  // set, the calling thread calls `report` after every 200 ms of waiting, and at the end.
  BenchResult Run(const std::function<void(const BenchProgress&)>& report);

 private:
  class Call;
  void StartCall(int32_t index, Time due);
  void OnTokens(int64_t num_tokens);
  void OnDone(int32_t index, BenchRecord record);
  bool WaitUntilDue(int32_t index, Time due,
                    const std::function<void(const BenchProgress&)>& report);
  void ForgetEndedCalls();
  BenchProgress Progress();

  v1::Inference::Stub& stub_;
  const ClientOptions client_;
  const BenchPlan plan_;
  Time begin_{};
  std::map<int32_t, std::unique_ptr<Call>> calls_;  // calls by request index

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<BenchRecord> records_ ABSL_GUARDED_BY(mutex_);
  BenchProgress progress_ ABSL_GUARDED_BY(mutex_);
  std::vector<int32_t> ended_ ABSL_GUARDED_BY(mutex_);  // keys of ended calls in calls_
};

}  // namespace incipit
