// All options of the server. BindOptions is the single source for the flags and their help, the
// configuration file, Admin.GetServerInfo and the table in docs/operations.md.
#pragma once

#include <cstdint>
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
#include "server/session/request_limits.h"

namespace incipit {

// Maximum value of --metadata-bytes-max, in bytes.
inline constexpr int64_t kMetadataBytesLimitMax = 1 << 20;

enum class Device : uint8_t { kCpu, kCuda };
// Additional metric names under which the server publishes the metrics.
enum class MetricsCompat : uint8_t { kNone, kVllm };

// The value of a flag for a file: a path (kFile), no file (kNone) or a default of the program
// (kAuto).
struct FileChoice {
  enum class Kind : uint8_t { kAuto, kNone, kFile };
  Kind kind = Kind::kAuto;
  std::string path = {};  // path of the file if `kind` is kFile
};

// The values of all flags of `incipit serve`. If an optional value is absent, the program chooses
// the value. docs/operations.md explains each flag.
struct Options {
  std::string config;  // path of a YAML file with flags

  std::string model;       // path of the model folder
  std::string model_name;  // name of the model in requests; empty: the name of the model folder
  std::optional<int32_t> max_model_len;
  WeightFormat weights = WeightFormat::kAsStored;
  std::optional<DType> kv_dtype;
  FileChoice chat_template;  // kAuto: the chat template of the model

  std::optional<Device> backend;
  int32_t threads = 0;  // number of threads; 0: the number of CPUs that the process may use
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
  // Maximum share of all cache blocks that one tenant may retain.
  double cache_retention_share_max = 0.25;
  int32_t cache_retention_max_s = 600;
  int32_t block_size = 16;
  std::optional<int32_t> kv_blocks;
  // Memory of the cache in bytes; 0: a share of the free memory of the device.
  int64_t kv_memory = 0;

  std::optional<int32_t> step_tokens;  // absent: a measurement at the start chooses the value
  int32_t prompt_steps_max = 128;
  std::optional<int32_t> steps_in_flight;  // absent: 2 on a GPU, 1 on the CPU
  int32_t running_max = 128;
  int32_t requests_max = 1024;
  int64_t waiting_prompt_tokens_max = 4'000'000;

  HostPort address{"127.0.0.1", 50051};
  HostPort metrics_address{"127.0.0.1", 9464};
  std::optional<HostPort> admin_address;  // absent: the Admin service is on `address`
  std::string port_file;
  MetricsCompat metrics_compat = MetricsCompat::kNone;

  int32_t streams_max = 1024;
  int32_t connection_streams_max = 256;
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

  LogLevel log_level = LogLevel::kInfo;
  Duration drain_timeout = std::chrono::seconds(30);
};

// Adds a flag for each option to `flags`; the flags set the values in `options`. `options` must
// outlive `flags`.
void BindOptions(Options& options, Flags& flags);

// Returns the help text of `incipit serve`.
std::string ServeHelp(const Flags& flags);

// Returns the cache options that the flags set. The number of blocks is not set.
KvCacheOptions CacheOptionsOf(const Options& options);

// Checks the conditions on `options` that the parsing of a single flag does not check, such as two
// flags that contradict each other. An error names the flags.
absl::Status Validate(const Options& options);

// Sets `flags` from `yaml`, the text of a configuration file, which maps flag names to values.
// `name` is the name of the file for error messages.
absl::Status ApplyConfig(std::string_view yaml, std::string_view name, Flags& flags);

// Parses the arguments of `serve` into `options`. The configuration file of --config is applied
// before `args`, so a flag in `args` overrides the file. Then calls Validate, unless `args`
// contains --help. `flags` remains bound to `options`.
absl::Status ParseOptions(std::span<const std::string_view> args, Options& options, Flags& flags);

}  // namespace incipit
