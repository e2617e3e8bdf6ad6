// Loads of the simulation with time: lists of requests with their times of arrival.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/enum_names.h"
#include "base/types.h"
#include "tests/serving_sim/device_model.h"
#include "tests/serving_sim/random.h"

namespace incipit::serving_sim {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// Number of requests that the heavy tenant of LoadKind::kHeavyBurst sends at once.
inline constexpr size_t kHeavyBurstRequests = 1000;
// Number of requests in a conversation of LoadKind::kMultiTurn.
inline constexpr size_t kConversationTurns = 4;
// A hash id in a log of the Mooncake project stands for a block of this number of tokens.
inline constexpr int32_t kMooncakeBlockTokens = 512;

struct SimRequest {
  double arrival = 0;  // in seconds
  uint64_t tenant = 0;
  int32_t priority = 0;
  std::vector<TokenId> prompt;
  int32_t output_tokens = 1;
  uint64_t output_text = 0;  // argument of TextToken for the output tokens
  int32_t num_choices = 1;   // number of outputs; the baselines compute one output
  // Deadline of the first output token in simulated time, in seconds.
  double ttft_deadline = kNever;
  // Deadline of the whole output in simulated time, in seconds. The baselines ignore this deadline.
  double deadline = kNever;
  // True if the metrics also report this request separately. Examples: a request with a short
  // prompt or a tight deadline, or a request of a tenant with few requests.
  bool is_focus = false;

  int32_t num_prompt() const { return static_cast<int32_t>(prompt.size()); }
};

enum class LoadKind : uint8_t {
  kSteady,
  kBursty,
  kLongAndShort,
  kHeavyBurst,
  kHeavyRate,
  kOverload,
  kDeadline,
  kChatbot,
  kMultiTurn,
  kMooncake,
  kTimeout,
};

inline constexpr std::array<EnumName<LoadKind>, 11> kLoadNames = {{
    {LoadKind::kSteady, "steady"},
    {LoadKind::kBursty, "bursty"},
    {LoadKind::kLongAndShort, "long_and_short"},
    {LoadKind::kHeavyBurst, "heavy_burst"},
    {LoadKind::kHeavyRate, "heavy_rate"},
    {LoadKind::kOverload, "overload"},
    {LoadKind::kDeadline, "deadline"},
    {LoadKind::kChatbot, "chatbot"},
    {LoadKind::kMultiTurn, "multi_turn"},
    {LoadKind::kMooncake, "mooncake"},
    {LoadKind::kTimeout, "timeout"},
}};

// A load and the properties of the load that no scheduler changes.
struct Load {
  LoadKind kind = LoadKind::kSteady;
  double utilization = 0;              // rate of the requests divided by `capacity`
  double capacity = 0;                 // device capacity, in requests per second; from MeasureLoad
  std::vector<SimRequest> requests{};  // in the order of arrival
  // Number of prompt tokens that must be computed if the cache never evicts a block.
  int64_t distinct_prompt_tokens = 0;
  // Lower bound of the time at which the last request ends, in seconds; set by MeasureLoad.
  double makespan_min = 0;
};

struct LoadOptions {
  LoadKind kind = LoadKind::kSteady;
  double utilization = 0.7;
  uint64_t seed = 1;
  // Time in which the requests arrive, in seconds; 0: DeviceModel::horizon_s.
  double horizon_s = 0;
  std::string trace{};  // path of the log of requests that LoadKind::kMooncake reads
  int32_t trace_requests_max = 4000;
  int32_t trace_hash_id_tokens = 32;  // argument of ReadMooncake
};

// Returns the load `options`. The requests arrive at `utilization` times the capacity of the
// device; kOverload ignores `utilization`. Returns an error if the log of requests that kMooncake
// needs is not readable or wrong.
absl::StatusOr<Load> MakeLoad(const DeviceModel& device, const LoadOptions& options);

// Sets the capacity and the bounds of `load` from its requests, in the order of `load.requests`.
//
// The capacity in requests per second is 1 divided by the mean cost of a request in seconds. The
// cost is the sum of three times:
// - The time of the prompt tokens that must be computed if the cache never evicts a block. This
//   includes the positions that these tokens read in steps of step_tokens_max tokens.
// - The time of each later output token: one decoding sequence and its positions.
// - A share of the constant time of steps.
// The number of steps is the larger of two numbers: all tokens divided by step_tokens_max, and
// output tokens divided by the number of sequences that run at the same time. This number is
// running_max, or fewer if only fewer sequences fit into the cache.
//
// makespan_min is a lower bound of the time at which the last request ends. The bound is the larger
// of two times: the cost of all requests if all steps are full, and the latest end of a request if
// each request had an idle device.
void MeasureLoad(const DeviceModel& device, Load& load);

// Appends requests without times of arrival, until `requests` has `num_requests` elements.
// REQUIRES: `kind` is not kMooncake.
void AddRequests(const DeviceModel& device, LoadKind kind, size_t num_requests, uint64_t seed,
                 std::vector<SimRequest>& requests);

// Reads the first `requests_max` requests of a log of the Mooncake project that have at most
// `tokens_max` tokens. Each hash id becomes `hash_id_tokens` tokens, and equal hash ids become
// equal tokens. The lengths of prompts and outputs are those of the log times `hash_id_tokens` /
// kMooncakeBlockTokens, rounded up. The times of arrival are those of the log, in seconds.
// REQUIRES: `hash_id_tokens` is in [1, kMooncakeBlockTokens].
absl::StatusOr<std::vector<SimRequest>> ReadMooncake(const std::string& path, int32_t requests_max,
                                                     int64_t tokens_max, int32_t hash_id_tokens);

}  // namespace incipit::serving_sim
