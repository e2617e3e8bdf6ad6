// Sends the requests of a load test to a server, and records the arrival time of each output token.
// A request starts when a previous request ends (closed loop) or at a planned time (open loop).
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

// The measurements of one request. `due` is the planned start of the request in an open loop, and
// the actual start in a closed loop.
struct BenchRecord {
  bool is_done = false;
  std::string error;  // error message; empty if the request succeeded
  // Seconds from `due` to the first token, and from `due` to the end.
  double first_token = 0, total = 0;
  std::vector<double> inter_token;  // times between consecutive output tokens, in seconds
  uint32_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double due = 0;  // start of the request, in seconds since the start of the load test
};

struct BenchProgress {
  int32_t num_done = 0, num_in_flight = 0, num_errors = 0;
  int64_t num_output_tokens = 0;
  double seconds = 0;  // seconds since the start of the load test
};

struct BenchPlan {
  int32_t num_requests = 0;
  // Closed loop: number of requests in flight; used if `arrivals` is empty.
  int32_t concurrency = 0;
  // Open loop: start times of the requests, in seconds since the start of the load test.
  std::vector<double> arrivals;
  std::function<v1::GenerateRequest(int32_t index)> make_request;
};

struct BenchResult {
  std::vector<BenchRecord> records;
  double seconds = 0;  // seconds from the start of the load test to the end of its last request
  int32_t concurrency = 0;  // number of requests in flight in a closed loop; 0: open loop
};

// Runs one load test. Outputs arrive on threads of gRPC, so in an open loop a slow output does not
// delay other requests.
class BenchLoad {
 public:
  // REQUIRES: `stub` outlives this object.
  BenchLoad(v1::Inference::Stub& stub, const ClientOptions& client, BenchPlan plan);
  ~BenchLoad();

  // Sends all requests of the plan and returns after the last request has ended. If `report` is
  // set, the calling thread calls `report` after every 200 ms of waiting and at the end.
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
  std::map<int32_t, std::unique_ptr<Call>> calls_;  // calls in flight, by index of their request

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<BenchRecord> records_ ABSL_GUARDED_BY(mutex_);
  BenchProgress progress_ ABSL_GUARDED_BY(mutex_);
  // Keys in calls_ of the calls that have ended.
  std::vector<int32_t> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
