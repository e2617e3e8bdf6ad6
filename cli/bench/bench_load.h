// Sends the requests of a load test to a server, and records the arrival time of each output token.
// A request starts when a user is ready (closed loop) or at a planned time (open loop).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "cli/bench/bench_users.h"
#include "cli/client/client.h"
#include "incipit/v1/inference.grpc.pb.h"

namespace incipit {

// The measurements of one request.
struct BenchRecord {
  bool is_done = false;
  std::string error;  // error message; empty if the request succeeded
  // `first_token` is the time to the first output token, `total` the time to the end of the
  // request. Both times begin at `due` (the start of the request) and are in seconds.
  double first_token = 0, total = 0;
  std::vector<double> inter_token;  // times between consecutive output tokens, in seconds
  uint32_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  // Start of the request, in seconds since the start of the load test: the planned start in an open
  // loop, the actual start in a closed loop.
  double due = 0;
  // Number of prompt tokens that a prefix cache without a size limit would find (ImpliedCache).
  uint32_t implied_tokens = 0;
};

struct BenchProgress {
  int32_t num_done = 0, num_in_flight = 0, num_errors = 0;
  int64_t num_output_tokens = 0;
  double seconds = 0;  // time since the start of the load test, in seconds
};

// Describes the end of request number `index`, which user number `user` has sent.
struct BenchEnd {
  int32_t index = 0, user = 0;
  bool succeeded = false;
  std::span<const uint32_t> output;  // the output tokens that have arrived
};

struct BenchPlan {
  int32_t num_requests = 0;
  // Number of users. Each user sends one request at a time. In an open loop, BenchLoad adds a user
  // if every user waits for the end of a request.
  int32_t num_users = 0;
  // Planned start times of the requests, in seconds since the start of the load test (open loop).
  // Empty: the requests have no planned start times (closed loop).
  std::vector<double> arrivals;
  // Returns request number `index`, which `user` sends. Called in the order of the requests, on the
  // thread of BenchLoad::Run().
  std::function<v1::GenerateRequest(int32_t index, int32_t user)> make_request;
  // Receives the end of each request before the same user sends another request. Called on the
  // thread of BenchLoad::Run(). May be empty.
  std::function<void(const BenchEnd& end)> on_end{};
  // Returns the think time after request number `index`, in seconds (closed loop). The think time
  // begins at the end of the request. After the think time, the user of the request can send
  // another request. Empty: the think time is 0.
  std::function<double(int32_t index)> think_time{};
};

struct BenchResult {
  std::vector<BenchRecord> records;
  double seconds = 0;  // seconds from the start of the load test to the end of its last request
  int32_t concurrency = 0;  // number of users of a closed loop; 0: an open loop
};

// Runs one load test. gRPC threads receive the outputs, so receiving an output does not delay the
// start of other requests.
class BenchLoad {
 public:
  // REQUIRES: `stub` outlives this object.
  BenchLoad(v1::Inference::Stub& stub, const ClientOptions& client, BenchPlan plan);
  ~BenchLoad();

  // Sends all requests and returns after the last request has ended. If `report` is set, calls
  // `report` about every 200 ms and at the end, on the calling thread.
  BenchResult Run(const std::function<void(const BenchProgress&)>& report);

 private:
  class Call;
  bool is_open() const { return !plan_.arrivals.empty(); }
  Time DueAt(int32_t index) const;
  void StartCall(int32_t index, Time due);
  void OnDone(int32_t index, BenchRecord record);
  void Wait(Time until, const std::function<void(const BenchProgress&)>& report);
  void ForgetEndedCalls();
  BenchProgress Progress();

  v1::Inference::Stub& stub_;
  const ClientOptions client_;
  const BenchPlan plan_;
  Time begin_{}, next_report_{};
  BenchUsers users_;
  // The gRPC calls that have started; ForgetEndedCalls() removes the calls that have ended. Key:
  // index of the request.
  std::map<int32_t, std::unique_ptr<Call>> calls_;
  // Number of output tokens of all requests. Atomic, because gRPC threads increase the number
  // without locking `mutex_`.
  std::atomic<int64_t> num_output_tokens_{0};

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<BenchRecord> records_ ABSL_GUARDED_BY(mutex_);
  BenchProgress progress_ ABSL_GUARDED_BY(mutex_);
  // Keys of the ended calls in `calls_`. ForgetEndedCalls() removes these calls from `calls_`.
  std::vector<int32_t> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
