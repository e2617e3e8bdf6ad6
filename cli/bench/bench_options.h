// The flags of `incipit bench`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/flags.h"
#include "cli/analysis/analyze_input.h"
#include "cli/bench/bench_report.h"
#include "cli/bench/workload.h"
#include "cli/client/client.h"

namespace incipit {

// Number of users in a closed loop if --concurrency is not set. Also the number of users at the
// start of an open loop.
inline constexpr int32_t kBenchUsers = 8;
// Number of requests if neither --requests nor --trace is set.
inline constexpr int32_t kBenchRequests = 100;

struct BenchOptions {
  ClientOptions client;
  std::string admin_address;  // address of the Admin service; empty: `client.address`
  std::optional<int32_t> num_requests, concurrency;
  std::optional<double> rate;
  Duration think_time{};  // mean time between the end of a request and the user's next request
  int32_t prompt_tokens = 256, output_tokens = 32, shared_prefix_tokens = 0;
  std::optional<Workload> workload;
  // Number of requests in a conversation. Absent: the number that the workload defines.
  std::optional<int32_t> num_turns;
  double length_scale = 1;
  std::string trace;  // path of a log of requests to replay; empty: none
  double time_scale = 1;
  std::optional<int32_t> block_size;
  TimestampUnit timestamp_unit = TimestampUnit::kMilliseconds;
  std::string tokenizer;  // folder of the tokenizer for a log of texts; empty: no tokenizer
  Duration ttft_target = std::chrono::seconds(1), itl_target = std::chrono::milliseconds(100);
  std::optional<int64_t> seed;
  float temperature = 0;
  bool json = false;
  // Path of the file that is written with the measurements of each request. Empty: no file.
  std::string records;

  BenchTargets targets() const { return {ToSeconds(ttft_target), ToSeconds(itl_target)}; }
};

void BindBenchFlags(Flags& flags, BenchOptions& options);

// Returns INVALID_ARGUMENT if the flags contradict each other.
absl::Status CheckBenchOptions(const Flags& flags, const BenchOptions& options);

}  // namespace incipit
