// Sends requests, either so many at a time or at given moments, and notes when tokens come back.
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

// What one request gave. Times are in seconds, from the moment it was due.
struct BenchRecord {
  bool is_done = false;
  std::string error;  // empty: none
  double first_token = 0, total = 0;
  std::vector<double> inter_token;
  uint32_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double due = 0;  // since the run's beginning
};

struct BenchProgress {
  int32_t num_done = 0, num_in_flight = 0, num_errors = 0;
  int64_t num_output_tokens = 0;
  double seconds = 0;
};

struct BenchPlan {
  int32_t num_requests = 0;
  int32_t concurrency = 0;       // closed loop, if there are no arrivals
  std::vector<double> arrivals;  // open loop: when each is due, in seconds from the start
  std::function<v1::GenerateRequest(int32_t index)> make_request;
};

struct BenchResult {
  std::vector<BenchRecord> records;
  double seconds = 0;       // from the first request to the last answer
  int32_t concurrency = 0;  // of a closed loop
};

// One run. Answers arrive on gRPC's threads, so that in an open loop a slow answer delays no
// request.
class BenchLoad {
 public:
  // `stub` outlives it.
  BenchLoad(v1::Inference::Stub& stub, const ClientOptions& client, BenchPlan plan);
  ~BenchLoad();

  // `report` is called now and then on this thread, if there is one.
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
  std::map<int32_t, std::unique_ptr<Call>> calls_;  // until they have ended

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<BenchRecord> records_ ABSL_GUARDED_BY(mutex_);
  BenchProgress progress_ ABSL_GUARDED_BY(mutex_);
  std::vector<int32_t> ended_ ABSL_GUARDED_BY(mutex_);  // of calls_, to be forgotten
};

}  // namespace incipit
