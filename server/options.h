// Everything an operator can set. One table (BindOptions) drives the flags, the configuration file,
// --help, Admin.GetServerInfo and the table in docs/operations.md.
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

// The most that --metadata-bytes-max may allow.
inline constexpr int64_t kMetadataBytesLimitMax = 1 << 20;

enum class Device : uint8_t { kCpu, kCuda };
// Other names that the metrics are also published under.
enum class MetricsCompat : uint8_t { kNone, kVllm };

// A file that the operator names, leaves to the program, or switches off.
struct FileChoice {
  enum class Kind : uint8_t { kAuto, kNone, kFile };
  Kind kind = Kind::kAuto;
  std::string path = {};  // of kFile
};

// An absent value is chosen by the program.
struct Options {
  std::string config;  // a YAML file of flags

  std::string model;       // folder
  std::string model_name;  // empty: the folder's name
  std::optional<int32_t> max_model_len;
  WeightFormat weights = WeightFormat::kAsStored;
  std::optional<DType> kv_dtype;
  FileChoice chat_template;  // kAuto: the model's own

  std::optional<Device> backend;
  int32_t threads = 0;  // 0: the CPUs that the process may use
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
  double cache_retention_share_max = 0.25;  // of the blocks, of each tenant
  int32_t cache_retention_max_s = 600;
  int32_t block_size = 16;
  std::optional<int32_t> kv_blocks;
  int64_t kv_memory = 0;  // bytes; 0: from what is free

  std::optional<int32_t> step_tokens;  // absent: measured
  int32_t prompt_steps_max = 128;
  std::optional<int32_t> steps_in_flight;  // absent: by the backend
  int32_t running_max = 128;
  int32_t requests_max = 1024;
  int64_t waiting_prompt_tokens_max = 4'000'000;

  HostPort address{"127.0.0.1", 50051};
  HostPort metrics_address{"127.0.0.1", 9464};
  std::optional<HostPort> admin_address;  // absent: on `address`
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

// `options` outlives `flags`.
void BindOptions(Options& options, Flags& flags);

// The help of `incipit serve`.
std::string ServeHelp(const Flags& flags);

// What the flags say of the cache, but for its size.
KvCacheOptions CacheOptionsOf(const Options& options);

// What spans several flags. Names the flags that contradict each other.
absl::Status Validate(const Options& options);

// Sets `flags` from the YAML text of a configuration file: a mapping of flag names to values.
// `name` is the file's, for messages.
absl::Status ApplyConfig(std::string_view yaml, std::string_view name, Flags& flags);

// The arguments of `serve`: those of --config first, then `args`, so that a flag wins. The flags
// stay bound to `options`. Does not validate if --help was asked for.
absl::Status ParseOptions(std::span<const std::string_view> args, Options& options, Flags& flags);

}  // namespace incipit
