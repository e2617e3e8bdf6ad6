#include "server/options.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <set>

#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "engine/engine.h"
#include "server/engine_options.h"
#include "server/net/address.h"
#include "transformer/weights.h"

namespace incipit {
namespace {

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();
// Value of FlagText::is_private for a flag whose value is a path or a secret: the server does not
// report the value to clients.
constexpr bool kPrivate = true;
constexpr std::string_view kAuto = "auto";
constexpr std::string_view kNoFile = "none";
constexpr std::string_view kNoAddress = "none";

constexpr EnumName<Device> kDeviceNames[] = {{Device::kCpu, "cpu"}, {Device::kCuda, "cuda"}};
// Values of the flag --gpu-large-products. The list omits LargeProducts::kLibrary, which only tests
// and benchmarks use.
constexpr EnumName<LargeProducts> kLargeProductsNames[] = {{LargeProducts::kOwn, "own"},
                                                           {LargeProducts::kFastest, "fastest"}};
constexpr EnumName<MetricsCompat> kMetricsCompatNames[] = {{MetricsCompat::kNone, "none"},
                                                           {MetricsCompat::kVllm, "vllm"}};
constexpr EnumName<EngineApi> kEngineApiNames[] = {
    {EngineApi::kAuto, "auto"}, {EngineApi::kOn, "on"}, {EngineApi::kOff, "off"}};

void Address(Flags& flags, FlagText text, HostPort& target) {
  flags.Custom(
      text,
      [&target](std::string_view value) -> absl::Status {
        INCIPIT_ASSIGN_OR_RETURN(target, ParseHostPort(value));
        return absl::OkStatus();
      },
      [&target] { return ToString(target); });
}

// Adds a flag whose value is an address or the empty text. The empty text sets `target` to nullopt.
void Address(Flags& flags, FlagText text, std::optional<HostPort>& target) {
  flags.Custom(
      text,
      [&target](std::string_view value) -> absl::Status {
        if (value.empty()) {
          target.reset();
        } else {
          INCIPIT_ASSIGN_OR_RETURN(target, ParseHostPort(value));
        }
        return absl::OkStatus();
      },
      [&target] { return target ? ToString(*target) : std::string(); });
}

// Adds a flag for a file. The value `automatic` sets `target` to FileChoice::Kind::kAuto, and the
// value "none" sets it to kNone. Every other value is the path of the file.
void File(Flags& flags, FlagText text, FileChoice& target, std::string_view automatic) {
  flags.Custom(
      text,
      [&target, automatic](std::string_view value) -> absl::Status {
        using enum FileChoice::Kind;
        target.kind = value == automatic ? kAuto : value == kNoFile ? kNone : kFile;
        target.path = target.kind == kFile ? value : "";
        return absl::OkStatus();
      },
      [&target, automatic] {
        switch (target.kind) {
          case FileChoice::Kind::kAuto:
            return std::string(automatic);
          case FileChoice::Kind::kNone:
            return std::string(kNoFile);
          case FileChoice::Kind::kFile:
            break;
        }
        return target.path;
      });
}

void PriorityRange(Flags& flags, RequestLimits& limits) {
  flags.Custom(
      {"priority-range", "MIN,MAX",
       "Minimum and maximum priority of a request. A priority outside the range is replaced by the "
       "nearest value in the range."},
      [&limits](std::string_view value) -> absl::Status {
        int32_t min = 0, max = 0;
        const char* const end = value.data() + value.size();
        const auto first = std::from_chars(value.data(), end, min);
        const bool has_comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
        const auto second = has_comma ? std::from_chars(first.ptr + 1, end, max) : first;
        if (!has_comma || second.ec != std::errc() || second.ptr != end || min > max) {
          return InvalidArgument("is \"{}\"; it must be two whole numbers MIN,MAX with MIN <= MAX",
                                 value.substr(0, 80));
        }
        limits.priority_min = min;
        limits.priority_max = max;
        return absl::OkStatus();
      },
      [&limits] { return fmt::format("{},{}", limits.priority_min, limits.priority_max); });
}

void BindModel(Options& o, Flags& flags) {
  flags.Group("Model");
  flags.String({"model", "DIR",
                "Model folder in Hugging Face format: config.json, *.safetensors, tokenizer.json.",
                kPrivate},
               o.model);
  flags.String({"model-name", "NAME",
                "Model name in requests and metrics. Default: the name of the model folder."},
               o.model_name);
  flags.Strings({"model-alias", "NAME",
                 "Additional name of the model that requests may use. May be repeated."},
                o.model_aliases);
  AutoInteger(flags,
              {"max-model-len", "N|auto",
               "Maximum number of tokens of prompt and output together. auto: the context length "
               "of the model."},
              o.max_model_len, 2);
  flags.Enum({"weights", "FORMAT",
              "Number type of the weight matrices. auto: the type in the model files. int8: the "
              "server rounds the weights to 8-bit integers at its start."},
             o.weights, kWeightFormatNames);
  flags.Enum({"kv-dtype", "TYPE",
              "Number type of the keys and values in the KV cache. auto: f32 if the weights in the "
              "model files are f32, otherwise bf16."},
             o.kv_dtype, kAuto, kDTypeNames);
  File(flags,
       {"chat-template", "FILE|none",
        "File with a chat template that replaces the template of the model. none: no template; the "
        "server refuses chat requests.",
        kPrivate},
       o.chat_template, "");
  flags.Group("Device");
  flags.Enum({"backend", "NAME",
              "Device that computes the model. auto: cuda if the build and the machine support "
              "CUDA, otherwise cpu."},
             o.backend, kAuto, kDeviceNames);
  flags.Integer(
      {"threads", "N",
       "Number of threads of the CPU backend. 0: the number of CPUs that the process may use."},
      o.threads, {0, 4096});
  flags.Switch({"pin-threads", "",
                "on: each thread of the CPU backend is pinned to its own CPU. Default: off."},
               o.pin_threads);
  flags.Enum({"cpu-isa", "NAME",
              "Instruction set of the CPU backend. auto: the fastest set that the CPU supports."},
             o.cpu_isa, kAuto, kCpuIsaNames);
  flags.Enum({"gpu-large-products", "NAME",
              "Kernels for the matrix products of steps (batches) of at least 1,024 tokens. own: "
              "the kernels of Incipit; the output of a request then does not depend on the other "
              "requests in the step. fastest: at its start, the server measures the kernels of "
              "Incipit and of cuBLASLt for each matrix size, and uses the faster kernel."},
             o.gpu_large_products, kLargeProductsNames);
  File(flags,
       {"gpu-tuning-file", "FILE|auto|none",
        "File in which the server stores the times that it measures with --gpu-large-products "
        "fastest. auto: the file incipit/gpu_products in the folder $XDG_CACHE_HOME or ~/.cache. "
        "none: no file; the server repeats the measurements at each start.",
        kPrivate},
       o.gpu_tuning_file, kAuto);
}

void BindAddresses(Options& o, Flags& flags) {
  flags.Group("Addresses");
  Address(flags,
          {"address", "HOST:PORT",
           "Address of the gRPC server. Port 0 selects a free port. With the host 0.0.0.0, the "
           "server accepts connections from other machines."},
          o.address);
  Address(flags,
          {"metrics-address", "HOST:PORT",
           "Address of the Prometheus metrics (/metrics). Port 0 selects a free port."},
          o.metrics_address);
  Address(flags,
          {"admin-address", "HOST:PORT",
           "Separate address of the gRPC service Admin. If the flag is empty, the service Admin is "
           "at the address of --address."},
          o.admin_address);
  flags.Custom(
      {"http-address", "HOST:PORT|none",
       "Address of the HTTP server for OpenAI's API. Port 0 selects a free port. none: no HTTP "
       "server. If the flag is not set and the default port is in use, the server starts without "
       "HTTP."},
      [&address = o.http_address](std::string_view value) -> absl::Status {
        address.is_on = value != kNoAddress;
        address.is_required = true;
        if (address.is_on) {
          INCIPIT_ASSIGN_OR_RETURN(address.address, ParseHostPort(value));
        }
        return absl::OkStatus();
      },
      [&address = o.http_address] {
        return address.is_on ? ToString(address.address) : std::string(kNoAddress);
      });
  flags.Strings({"http-hosts", "HOST",
                 "Host name that the header field Host of an HTTP request may contain. If "
                 "--http-address is a loopback address, the server accepts only the names of "
                 "--http-hosts, localhost, 127.0.0.1 and [::1]. May be repeated."},
                o.http_hosts);
  flags.Strings({"http-origins", "ORIGIN",
                 "Origin of web pages, such as https://example.com. Scripts on the web pages of "
                 "this origin may send HTTP requests to the server. May be repeated."},
                o.http_origins);
  flags.String({"api-key-file", "FILE",
                "File with API keys, one key in each line. With the flag, clients need one of the "
                "keys, except for health checks. Default: no file; clients need no key.",
                kPrivate},
               o.api_key_file);
  flags.Switch(
      {"web", "", "on: the HTTP server serves a chat page for web browsers at the path /."}, o.web);
  flags.Enum(
      {"engine-api", "NAME",
       "on: the gRPC server offers the service vllm.grpc.engine.VllmEngine for SMG, a gateway in "
       "front of several servers. auto: on if --address is a loopback address, else off."},
      o.engine_api, kEngineApiNames);
  flags.String({"port-file", "FILE",
                "File to which the server writes its port numbers as soon as the server is ready: "
                "{\"grpc\": N, \"metrics\": N}. With an HTTP server, the file also contains "
                "\"http\": N. If --admin-address is set, the file also contains \"admin\": N.",
                kPrivate},
               o.port_file);
  flags.Enum(
      {"metrics-compat", "NAME",
       "Additional names for the metrics. vllm: the server also reports its metrics under the "
       "names that the inference server vLLM uses (vllm:...). none: no additional names."},
      o.metrics_compat, kMetricsCompatNames);
}

void BindServerLimits(Options& o, Flags& flags) {
  flags.Group("Limits of the server");
  flags.Integer({"streams-max", "N", "Maximum number of calls that generate output at one time."},
                o.streams_max, {1, 1 << 20});
  flags.Integer({"connection-streams-max", "N",
                 "Maximum number of calls at the same time on one gRPC connection."},
                o.connection_streams_max, {1, kInt32Max});
  flags.Integer({"http-connections-max", "N",
                 "Maximum number of open HTTP connections. At the maximum, a new connection makes "
                 "the server close the oldest connection that has no request in progress."},
                o.http_connections_max, {1, 1 << 20});
  flags.Integer({"kv-event-subscribers-max", "N",
                 "Maximum number of gateways that receive the events of the prefix cache at the "
                 "same time (RPC SubscribeKvEvents)."},
                o.kv_event_subscribers_max, {1, 1024});
  flags.Bytes({"message-bytes-max", "SIZE", "Maximum size of a message that a client sends."},
              o.message_bytes_max, {1024, 1 << 30});
  flags.Bytes({"receive-memory-max", "SIZE",
               "Maximum memory for data that clients have sent and the server has not processed."},
              o.receive_memory_max, {64 << 20});
  flags.Bytes({"metadata-bytes-max", "SIZE", "Maximum size of the metadata of a gRPC call."},
              o.metadata_bytes_max, {1024, kMetadataBytesLimitMax});
  flags.Integer(
      {"text-threads", "N", "Number of threads that tokenise text and render chat templates."},
      o.text_threads, {1, 256});
  flags.Integer(
      {"text-queue-max", "N",
       "Maximum number of calls that wait for a thread of --text-threads. Beyond the maximum, "
       "calls of the connection that uses most of the queue get RESOURCE_EXHAUSTED."},
      o.text_queue_max, {1, 1 << 20});
  flags.Bytes({"text-queue-bytes-max", "SIZE",
               "Maximum total size of the messages that wait for a thread of --text-threads. "
               "Beyond the maximum, calls of the connection that uses most of the queue get "
               "RESOURCE_EXHAUSTED. Must be at least --message-bytes-max."},
              o.text_queue_bytes_max, {1 << 20});
  using std::chrono::hours;
  using std::chrono::milliseconds;
  flags.Bytes({"output-queue-bytes-max", "SIZE",
               "Maximum total size of the output that clients have not read yet. Beyond the "
               "maximum, the calls with the most unread output get RESOURCE_EXHAUSTED."},
              o.output_queue_bytes_max, {1 << 20});
  flags.Interval({"write-stall-timeout", "TIME",
                  "If a client reads no output of its call for this time, the call ends with "
                  "RESOURCE_EXHAUSTED."},
                 o.write_stall_timeout, {milliseconds(10), hours(24)});
  flags.Interval({"request-time-max", "TIME",
                  "Maximum time from the arrival of a request to its last output token. The "
                  "deadline of a client can shorten this time, but cannot extend this time."},
                 o.request_time_max, {milliseconds(10), hours(24 * 365)});
  flags.Interval({"keepalive-time", "TIME",
                  "If a client sends no data for this time, the server sends an HTTP/2 ping to "
                  "test the connection."},
                 o.keepalive_time, {milliseconds(1000), hours(24)});
  flags.Interval({"keepalive-timeout", "TIME",
                  "Maximum time for a client to reply to an HTTP/2 ping. If the client does not "
                  "reply, the server closes the connection."},
                 o.keepalive_timeout, {milliseconds(100), hours(1)});
}

void BindRequestLimits(RequestLimits& r, Flags& flags) {
  flags.Group("Limits of a request (a request beyond a limit gets INVALID_ARGUMENT)");
  flags.Integer(
      {"prompt-tokens-max", "N",
       "Maximum number of tokens in a prompt. 0: only the context of the model limits the number."},
      r.prompt_tokens_max, {0});
  flags.Integer({"choices-max", "N", "Maximum number of outputs of one request (output.n)."},
                r.choices_max, {1, kChoicesMax});
  flags.Integer({"logprobs-max", "N",
                 "Maximum number of log probabilities that a request may ask for per token "
                 "(output.logprobs, output.prompt_logprobs)."},
                r.logprobs_max, {0, 128});
  flags.Bytes({"prompt-logprobs-bytes-max", "SIZE",
               "Maximum size of the log probabilities of one prompt (prompt_logprobs). The server "
               "estimates the size before the request runs."},
              r.prompt_logprobs_bytes_max, {0});
  flags.Integer({"stop-strings-max", "N", "Maximum number of stop strings (output.stop)."},
                r.stop_strings_max, {0, 1024});
  flags.Integer({"stop-string-bytes-max", "N", "Maximum number of bytes in one stop string."},
                r.stop_string_bytes_max, {1, 65536});
  flags.Integer(
      {"stop-tokens-max", "N", "Maximum number of stop token ids (output.stop_token_ids)."},
      r.stop_tokens_max, {0, 4096});
  flags.Integer({"logit-bias-max", "N", "Maximum number of tokens in the map sampling.logit_bias."},
                r.logit_bias_max, {0, 65536});
  flags.Integer({"messages-max", "N", "Maximum number of messages in a chat request."},
                r.messages_max, {1, 1 << 20});
  flags.Integer({"tools-max", "N", "Maximum number of tools in a chat request."}, r.tools_max,
                {0, 65536});
  flags.Bytes(
      {"template-arguments-bytes-max", "SIZE",
       "Maximum size of each JSON text in a request: template_arguments_json, the "
       "arguments of a tool call, and the parameters of a tool. A number without a unit is in "
       "bytes."},
      r.template_arguments_bytes_max, {2, 16 << 20});
  flags.Integer({"json-values-max", "N",
                 "Maximum number of object members and array elements in all JSON texts of one "
                 "request. Each tool call counts as five members."},
                r.json_values_max, {1, 1 << 24});
  flags.Bytes({"detokenize-bytes-max", "SIZE", "Maximum size of the text that Detokenize returns."},
              r.detokenize_bytes_max, {1 << 10});
  flags.Integer({"cache-salt-bytes-max", "N", "Maximum number of bytes in the field cache.salt."},
                r.cache_salt_bytes_max, {0, 65536});
  flags.Interval({"cache-ttl-max", "TIME", "Maximum value of the field cache.retention.ttl."},
                 r.cache_ttl_max, {std::chrono::seconds(1), std::chrono::hours(24 * 365)});
  flags.Integer({"request-id-bytes-max", "N", "Maximum number of bytes in the field request_id."},
                r.request_id_bytes_max, {1, 4096});
  flags.Integer(
      {"tenant-bytes-max", "N", "Maximum number of bytes in the tenant name (x-tenant-id)."},
      r.tenant_bytes_max, {1, 4096});
  PriorityRange(flags, r);
}

void BindOperation(Options& o, Flags& flags) {
  flags.Group("Tenants and prompts");
  flags.Switch({"isolate-tenants", "",
                "on: requests of different tenants (x-tenant-id) share no cached blocks."},
               o.isolate_tenants);
  flags.Switch({"allow-special-tokens-in-chat", "",
                "on: the server converts the text of a special token in a chat message to this "
                "token. off: the server treats the text as ordinary text. Default: off."},
               o.allow_special_tokens_in_chat);
  flags.Enum({"tool-parser", "NAME",
              "Format in which the model writes tool calls. The RPC Chat converts text in this "
              "format to tool calls. auto: the format that the chat template defines."},
             o.tool_parser, kAuto, kToolFormatNames);
  flags.Enum({"reasoning-parser", "NAME",
              "Format in which the model writes reasoning. The RPC Chat returns the reasoning "
              "apart from the text. auto: the format that the chat template defines."},
             o.reasoning_parser, kAuto, kReasoningFormatNames);
  flags.Group("Operation");
  flags.String({"config", "FILE",
                "YAML file that sets flags: each key in the file is the name of a flag. A flag on "
                "the command line overrides the same flag in the file.",
                kPrivate},
               o.config);
  flags.String({"prewarm", "FILE",
                "File with prompts that the server computes, or loads from --disk-cache, before it "
                "is ready. Each line is a JSON object with \"text\" or \"token_ids\", and "
                "optionally \"tenant\" and \"salt\". Default: empty, no prompts.",
                kPrivate},
               o.prewarm);
  flags.Interval({"prewarm-timeout", "TIME",
                  "Maximum time for the prompts of --prewarm. After this time, the server cancels "
                  "the prompts that are left, and is ready."},
                 o.prewarm_timeout, {std::chrono::seconds(1), std::chrono::hours(24)});
  flags.Enum({"log-level", "LEVEL",
              "Minimum level of the log messages on stderr. Prompts and tokens are never logged."},
             o.log_level, kLogLevelNames);
  flags.Interval(
      {"drain-timeout", "TIME",
       "Maximum time that the server waits after SIGTERM for the end of running requests."},
      o.drain_timeout, {std::chrono::seconds(0), std::chrono::hours(24)});
}

absl::Status ValidateDiskCache(const Options& options) {
  if (options.disk_cache.empty()) {
    if (options.disk_cache_size == 0) return absl::OkStatus();
    return InvalidArgument("--disk-cache-size is set, but --disk-cache is empty; set both flags");
  }
  if (options.disk_cache_size < kDiskCacheSizeMin) {
    return InvalidArgument("--disk-cache-size is {}; with --disk-cache, it must be at least {}",
                           options.disk_cache_size, kDiskCacheSizeMin);
  }
  if (!options.prefix_cache) {
    return InvalidArgument("--disk-cache needs --prefix-cache on");
  }
  return absl::OkStatus();
}

}  // namespace

void BindOptions(Options& options, Flags& flags) {
  BindModel(options, flags);
  BindCache(options, flags);
  BindScheduling(options, flags);
  BindAddresses(options, flags);
  BindServerLimits(options, flags);
  BindRequestLimits(options.request, flags);
  BindOperation(options, flags);
}

std::string ServeHelp(const Flags& flags) {
  return fmt::format(
      "Serves a model over gRPC until SIGTERM, then finishes running requests (drains).\n"
      "A second signal stops the server immediately.\n\n"
      "Usage: incipit serve --model DIR [--flag value | --flag=value]...\n\n"
      "  incipit serve --model models/incipit-tiny\n"
      "  incipit serve --model DIR --address 0.0.0.0:50051 --metrics-address 0.0.0.0:9464\n"
      "  incipit serve --config incipit.yaml        # model: DIR, step-tokens: 512, ...\n\n"
      "{}\n"
      "Exit codes: 0 stopped by a signal, 1 the engine failed, 2 a wrong flag or configuration,\n"
      "3 the model cannot be served, 4 an address cannot be bound, 5 the device cannot be used.\n",
      flags.Help());
}

bool HasEngineApi(const Options& options) {
  if (options.engine_api != EngineApi::kAuto) return options.engine_api == EngineApi::kOn;
  return IsLoopbackHost(options.address.host);
}

absl::Status Validate(const Options& options) {
  if (options.model.empty())
    return InvalidArgument("--model is missing; set --model to the model folder");
  if ((options.block_size & (options.block_size - 1)) != 0) {
    return InvalidArgument("--block-size is {}; it must be a power of two from 1 to 256",
                           options.block_size);
  }
  if (options.kv_blocks && options.kv_memory > 0) {
    return InvalidArgument("--kv-blocks and --kv-memory are both set; set only one of these flags");
  }
  INCIPIT_RETURN_IF_ERROR(ValidateDiskCache(options));
  if (!options.prewarm.empty() && !options.prefix_cache) {
    return InvalidArgument("--prewarm needs --prefix-cache on");
  }
  if (options.text_queue_bytes_max < options.message_bytes_max) {
    return InvalidArgument(
        "--text-queue-bytes-max is {}; it must be at least --message-bytes-max, {}",
        options.text_queue_bytes_max, options.message_bytes_max);
  }
  if (options.admin_address == options.address && options.address.port != 0) {
    return InvalidArgument(
        "--admin-address is {}, the same as --address; leave --admin-address empty",
        ToString(options.address));
  }
  if (options.metrics_address == options.address && options.address.port != 0) {
    return InvalidArgument("--metrics-address is {}, the same as --address; set another address",
                           ToString(options.address));
  }
  return absl::OkStatus();
}

absl::Status ApplyConfig(std::string_view yaml, std::string_view name, Flags& flags) {
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    if (root.IsNull()) return absl::OkStatus();
    if (!root.IsMap()) {
      return InvalidArgument("{}: the file must be a mapping of flag names to values", name);
    }
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const auto key = entry.first.as<std::string>();
      const std::string where = fmt::format("{}:{}", name, entry.first.Mark().line + 1);
      if (!entry.second.IsScalar())
        return InvalidArgument("{}: {} must be a single value", where, key);
      if (!seen.insert(key).second) return InvalidArgument("{}: {} is given twice", where, key);
      if (key == "config")
        return InvalidArgument("{}: the key config is not allowed in a configuration file", where);
      const absl::Status status = flags.Set(key, entry.second.Scalar());
      if (!status.ok()) return InvalidArgument("{}: {}", where, MessageOf(status));
    }
  } catch (const YAML::Exception& error) {
    return InvalidArgument("{}:{}: {}", name, error.mark.line + 1, error.msg);
  }
  return absl::OkStatus();
}

absl::Status ParseOptions(std::span<const std::string_view> args, Options& options, Flags& flags) {
  Options first;
  Flags first_flags;
  BindOptions(first, first_flags);
  INCIPIT_RETURN_IF_ERROR(first_flags.ParseAll(args));
  BindOptions(options, flags);
  if (!first.config.empty()) {
    const absl::StatusOr<std::string> text = ReadTextFile(first.config);
    if (!text.ok()) return Annotate(text.status(), "--config");
    INCIPIT_RETURN_IF_ERROR(ApplyConfig(*text, first.config, flags));
  }
  INCIPIT_RETURN_IF_ERROR(flags.ParseAll(args));
  if (flags.help_requested()) return absl::OkStatus();
  return Validate(options);
}

}  // namespace incipit
