// All options of the server. BindOptions defines the flags and their help texts for the command
// line, the configuration file, Admin.GetServerInfo and the tables in docs/operations.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/flags.h"
#include "base/host_port.h"
#include "engine/engine.h"
#include "kernels/cpu/cpu_isa.h"
#include "kernels/cuda/cuda_options.h"
#include "server/logging.h"
#include "server/session/request/request_limits.h"
#include "text/chat/tool_format.h"
#include "tier/disk_tier.h"

namespace incipit {

// Maximum value of --metadata-bytes-max, in bytes.
inline constexpr int64_t kMetadataBytesLimitMax = 1 << 20;
// Smallest value of --disk-cache-size, in bytes.
inline constexpr int64_t kDiskCacheSizeMin = 256 << 20;

enum class Device : uint8_t { kCpu, kCuda };
// Additional names of the metrics: none, or the metric names of vLLM (an inference server).
enum class MetricsCompat : uint8_t { kNone, kVllm };

// Whether the server offers the gRPC service for the SMG gateway (a program that distributes
// requests over several servers). kAuto: only if --address is a loopback address.
enum class EngineApi : uint8_t { kAuto, kOn, kOff };

// The value of a flag for a file: the path of a file (kFile), no file (kNone), or the default of
// the flag (kAuto).
struct FileChoice {
  enum class Kind : uint8_t { kAuto, kNone, kFile };
  Kind kind = Kind::kAuto;
  std::string path = {};  // path of the file if `kind` is kFile
};

// The address of the HTTP server for OpenAI's API.
struct HttpAddress {
  HostPort address{"127.0.0.1", 8000};
  bool is_on = true;
  // What happens if the address is in use. True: the start of the server fails. False (for the
  // default address): the server starts without an HTTP server.
  bool is_required = false;
};

// The values of all flags of `incipit serve`. If an optional value is absent, the server chooses
// the value.
struct Options {
  std::string config;  // path of a YAML file that sets flags

  std::string model;  // path of the model folder
  // Name of the model in requests and metrics; empty: the name of the model folder.
  std::string model_name;
  std::vector<std::string> model_aliases;
  std::optional<int32_t> max_model_len;
  WeightFormat weights = WeightFormat::kAsStored;
  std::optional<DType> kv_dtype;
  FileChoice chat_template;  // chat template; kAuto: the template of the model

  std::optional<Device> backend;
  // Number of threads of the CPU backend; 0: the number of CPUs that the process may use.
  int32_t threads = 0;
  bool pin_threads = false;
  std::optional<CpuIsa> cpu_isa;
  LargeProducts gpu_large_products = LargeProducts::kOwn;
  FileChoice gpu_tuning_file;

  bool prefix_cache = true;
  HashAlgorithm prefix_cache_hash = HashAlgorithm::kSha256;
  std::string prefix_cache_seed;
  EvictionPolicyKind prefix_cache_policy = EvictionPolicyKind::kAdaptive;
  bool copy_on_write = true;
  double gpu_memory_fraction = 0.9;
  // Maximum share of all cache blocks that one tenant may keep with retention hints (requests to
  // keep blocks for longer), from 0 to 1.
  double cache_retention_share_max = 0.25;
  int32_t cache_retention_max_s = 600;
  int32_t block_size = 16;
  std::optional<int32_t> kv_blocks;
  // Memory of the KV cache in bytes. 0: half of the free memory on a CPU, or the share
  // `gpu_memory_fraction` of the free GPU memory on a GPU.
  int64_t kv_memory = 0;

  std::string disk_cache;       // folder of the disk cache; empty: no disk cache
  int64_t disk_cache_size = 0;  // maximum size of the disk cache in bytes
  // Memory on the host for keys and values between the device and the disk, in bytes.
  int64_t tier_staging = 256 << 20;
  // Maximum share of `disk_cache_size` for the chunks of one tenant; 1: no limit.
  double tier_tenant_share_max = 1;
  StorePolicy tier_store = StorePolicy::kAll;
  int64_t tier_write_max =
      0;  // maximum rate of writes to the disk in bytes per second; 0: no limit
  int32_t tier_loads_max = 16;
  LoadPolicy tier_load = LoadPolicy::kFaster;
  // Maximum time that a request waits for the disk; 0: a default that depends on `tier_load`
  // (SchedulerOptions::load_wait_max).
  Duration tier_wait_max{};
  // Maximum time, at the end of the server, in which chunks in `tier_staging` are still written.
  Duration tier_drain_timeout = std::chrono::seconds(10);

  // Maximum number of tokens in one step (batch); absent: chosen from measurements at the start of
  // the server.
  std::optional<int32_t> step_tokens;
  // Maximum number of steps (batches) that are planned but not complete; absent: 2 on a GPU, 1 on
  // the CPU.
  std::optional<int32_t> steps_in_flight;
  int32_t running_max = 128;
  int32_t requests_max = 1024;
  int64_t waiting_prompt_tokens_max = 4'000'000;

  SchedulingKind scheduling = SchedulingKind::kFair;
  // Time in which the priority of a waiting request rises by 1; 0: priorities do not rise.
  Duration priority_aging = std::chrono::seconds(10);
  int32_t reorder_window = 64;
  int32_t long_prefill_tokens = 64;
  // Maximum predicted duration of a step (batch) that computes prompt tokens while other requests
  // generate output; 0: `itl_ratio` times the predicted duration without prompt tokens.
  Duration itl_target{};
  double itl_ratio = kStepRatio;
  // Maximum time in which the engine waits for new requests after a step in which requests ended;
  // 0: the engine does not wait.
  Duration arrival_pause_max = std::chrono::milliseconds(10);
  // Maximum predicted time to compute all waiting prompts. If steps (batches) that respect
  // `itl_target` would take longer, steps ignore `itl_target`. 0: computed from measured steps and
  // the lengths of prompts.
  Duration ttft_target{};
  int32_t preemptions_max = 3;
  // Price of an output token, for comparing how much of the server each tenant has used. A computed
  // prompt token has the price 1.
  double output_price = 2;
  // Price of a prompt token from the cache, for comparing how much of the server each tenant has
  // used. A computed prompt token has the price 1.
  double cached_price = 0.1;
  // Weights of tenants, by name of the tenant. All other tenants have weight 1.
  std::map<std::string, double> tenant_weights;

  HostPort address{"127.0.0.1", 50051};
  HostPort metrics_address{"127.0.0.1", 9464};
  // Address of the gRPC service Admin; absent: Admin uses `address`.
  std::optional<HostPort> admin_address;
  HttpAddress http_address;
  std::vector<std::string> http_hosts, http_origins;
  bool web = true;
  int32_t http_connections_max = 4096;
  std::string api_key_file;  // path of the file with API keys; empty: clients need no key
  EngineApi engine_api = EngineApi::kAuto;
  std::string port_file;
  MetricsCompat metrics_compat = MetricsCompat::kVllm;

  int32_t streams_max = 1024;
  int32_t connection_streams_max = 256;
  int32_t kv_event_subscribers_max = 16;
  int64_t message_bytes_max = 4 << 20;
  int64_t receive_memory_max = 1 << 30;
  int64_t metadata_bytes_max = 16 << 10;
  int32_t text_threads = 2;
  int32_t text_queue_max = 256;
  int64_t text_queue_bytes_max = 128 << 20;
  int64_t output_queue_bytes_max = 512 << 20;
  Duration write_stall_timeout = std::chrono::seconds(30);
  Duration request_time_max = std::chrono::hours(1);
  Duration keepalive_time = std::chrono::seconds(60);
  Duration keepalive_timeout = std::chrono::seconds(20);
  RequestLimits request;

  bool isolate_tenants = true;
  bool allow_special_tokens_in_chat = false;
  // Formats in which the model writes tool calls and reasoning; absent: the formats that the chat
  // template defines.
  std::optional<ToolFormat> tool_parser;
  std::optional<ReasoningFormat> reasoning_parser;

  // Path of the file with the prompts that are computed before the server is ready; empty: none.
  std::string prewarm;
  Duration prewarm_timeout = std::chrono::seconds(60);

  LogLevel log_level = LogLevel::kInfo;
  Duration drain_timeout = std::chrono::seconds(30);
};

// Adds a flag for each member of `options` to `flags`. Parsing a flag sets the member of `options`.
// REQUIRES: `options` outlives `flags`.
void BindOptions(Options& options, Flags& flags);

// Returns the help text of `incipit serve`.
std::string ServeHelp(const Flags& flags);

// Returns true if the server offers the gRPC service for the SMG gateway (a program that
// distributes requests over several servers).
bool HasEngineApi(const Options& options);

// Returns the options of the KV cache that `options` sets. The result does not contain the number
// of cache blocks.
KvCacheOptions CacheOptionsOf(const Options& options);
// Returns the hash function for the keys of cache blocks. With a disk cache, different chunks must
// never have equal keys, so the function is SHA-256 in the format of `prefix_cache_hash`.
HashAlgorithm KeyHashOf(const Options& options);

// Checks conditions on several flags together, for example that two flags do not contradict each
// other. The error message contains the names of the flags.
absl::Status Validate(const Options& options);

// Sets `flags` to the values in `yaml`, the text of a configuration file that maps flag names to
// values. Error messages contain `name`, the name of the file.
absl::Status ApplyConfig(std::string_view yaml, std::string_view name, Flags& flags);

// Sets `options` from `args`, the arguments of `incipit serve`, and from the configuration file of
// --config. A flag in `args` overrides the file. Calls Validate unless `args` contains --help.
// REQUIRES: `options` outlives `flags`.
absl::Status ParseOptions(std::span<const std::string_view> args, Options& options, Flags& flags);

}  // namespace incipit
