#include "server/options.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "engine/engine.h"
#include "transformer/weights.h"

namespace incipit {
namespace {

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr bool kPrivate = true;  // of a flag: a path or a secret
constexpr std::string_view kAuto = "auto";
constexpr std::string_view kNoFile = "none";

constexpr EnumName<Device> kDeviceNames[] = {{Device::kCpu, "cpu"}, {Device::kCuda, "cuda"}};
// What an operator may ask for; kLibrary is for comparisons.
constexpr EnumName<LargeProducts> kLargeProductsNames[] = {{LargeProducts::kOwn, "own"},
                                                           {LargeProducts::kFastest, "fastest"}};
constexpr EnumName<MetricsCompat> kMetricsCompatNames[] = {{MetricsCompat::kNone, "none"},
                                                           {MetricsCompat::kVllm, "vllm"}};

// A whole number from `min` on, or "auto".
void AutoInteger(Flags& flags, FlagText text, std::optional<int32_t>& target, int32_t min,
                 int32_t max = kInt32Max) {
  flags.Custom(
      text,
      [&target, min, max](std::string_view value) -> absl::Status {
        if (value == kAuto) {
          target.reset();
          return absl::OkStatus();
        }
        int32_t number = 0;
        const auto [end, error] =
            std::from_chars(value.data(), value.data() + value.size(), number);
        if (error != std::errc() || end != value.data() + value.size() || number < min ||
            number > max) {
          return InvalidArgument("is \"{}\"; it must be auto or a whole number from {} to {}",
                                 value.substr(0, 80), min, max);
        }
        target = number;
        return absl::OkStatus();
      },
      [&target] { return target ? fmt::to_string(*target) : std::string(kAuto); });
}

void Address(Flags& flags, FlagText text, HostPort& target) {
  flags.Custom(
      text,
      [&target](std::string_view value) -> absl::Status {
        INCIPIT_ASSIGN_OR_RETURN(target, ParseHostPort(value));
        return absl::OkStatus();
      },
      [&target] { return ToString(target); });
}

// Empty: absent.
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

// `automatic` is the value that stands for FileChoice::Kind::kAuto.
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
      {"priority-range", "MIN,MAX", "What a request's priority is clamped to."},
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
  flags.String({"model", "DIR", "Hugging Face folder: config.json, *.safetensors, tokenizer.json.",
                kPrivate},
               o.model);
  flags.String({"model-name", "NAME", "What requests and metrics call it. Default: the folder's."},
               o.model_name);
  AutoInteger(
      flags,
      {"max-model-len", "N|auto", "Tokens of prompt and answer together. auto: the model's."},
      o.max_model_len, 2);
  flags.Enum({"weights", "FORMAT", "auto: as stored; int8: rounded to eight bits while loading."},
             o.weights, kWeightFormatNames);
  flags.Enum({"kv-dtype", "TYPE", "Keys and values. auto: f32 for f32 checkpoints, else bf16."},
             o.kv_dtype, kAuto, kDTypeNames);
  File(flags,
       {"chat-template", "FILE|none",
        "Instead of the model's own chat template; none: the server does not Chat.", kPrivate},
       o.chat_template, "");
  flags.Group("Device");
  flags.Enum({"backend", "NAME", "auto: cuda if the build and the machine have it, else cpu."},
             o.backend, kAuto, kDeviceNames);
  flags.Integer({"threads", "N", "Of the CPU backend. 0: the CPUs that the process may use."},
                o.threads, {0, 4096});
  flags.Switch({"pin-threads", "", "Keep each of these threads on a CPU of its own (on or off)."},
               o.pin_threads);
  flags.Enum({"cpu-isa", "NAME", "Instruction set of the CPU backend. auto: the machine's best."},
             o.cpu_isa, kAuto, kCpuIsaNames);
  flags.Enum({"gpu-large-products", "NAME",
              "Whose matrix products steps of 1,024 tokens and more take. own: our kernels', so "
              "that an answer has the same bits in any batch, if the card's tensor instructions "
              "for few and for many rows add up alike (gpu_check says it). fastest: per size "
              "ours or cuBLASLt's, measured at the start."},
             o.gpu_large_products, kLargeProductsNames);
  File(flags,
       {"gpu-tuning-file", "FILE|auto|none",
        "Keeps what fastest has measured. auto: incipit/gpu_products in XDG_CACHE_HOME or "
        "~/.cache. none: each start measures.",
        kPrivate},
       o.gpu_tuning_file, kAuto);
}

void BindPrefixCache(Options& o, Flags& flags) {
  flags.Switch({"prefix-cache", "", "Keep computed prefixes and share them (on or off)."},
               o.prefix_cache);
  flags.Enum({"prefix-cache-hash", "NAME",
              "What blocks are found by. xxh3_128 is faster and its hits are compared token by "
              "token; the cbor forms give keys that other engines compute too; xxhash stands "
              "for xxh3_128."},
             o.prefix_cache_hash, kHashAlgorithmNames);
  flags.String(
      {"prefix-cache-seed", "TEXT",
       "What keys start from: servers with the same one give equal blocks equal keys.", kPrivate},
      o.prefix_cache_seed);
  flags.Enum({"prefix-cache-policy", "NAME", "Which cached blocks are given up first."},
             o.prefix_cache_policy, kEvictionPolicyNames);
  flags.Switch({"copy-on-write", "",
                "Of a cached block that differs after a quarter of its tokens or more, copy those "
                "instead of computing them."},
               o.copy_on_write);
  flags.Real({"cache-retention-share-max", "X",
              "Of the blocks, that one tenant may keep by cache.retention above the default."},
             o.cache_retention_share_max, {0, 1});
  flags.Integer({"cache-retention-max-s", "SECONDS",
                 "After this a cache.retention.priority has sunk to the default, and a pin ends."},
                o.cache_retention_max_s, {1, 86400});
}

void BindCacheAndScheduler(Options& o, Flags& flags) {
  flags.Group("Cache");
  BindPrefixCache(o, flags);
  flags.Integer({"block-size", "N", "Tokens of a block, a power of two."}, o.block_size, {1, 256});
  AutoInteger(flags, {"kv-blocks", "N|auto", "Blocks of the cache. auto: from --kv-memory."},
              o.kv_blocks, 1, kBlocksMax);
  flags.Bytes({"kv-memory", "SIZE", "Memory of the cache. 0: from what the device has free."},
              o.kv_memory, {0});
  flags.Real({"gpu-memory-fraction", "X",
              "With --backend cuda and neither of those: of the device's memory that is free after "
              "weights, what the cache takes."},
             o.gpu_memory_fraction, {0.01, 0.95});
  flags.Group("Scheduling");
  AutoInteger(flags,
              {"step-tokens", "N|auto",
               "Tokens computed in one step. auto: measured, so that a step takes under half a "
               "second."},
              o.step_tokens, 1);
  flags.Integer({"prompt-steps-max", "N",
                 "Steps over which prompts are spread at most while answers go on, so that these "
                 "come evenly. 1: prompts go as fast as they can."},
                o.prompt_steps_max, {1, 1 << 20});
  AutoInteger(flags,
              {"steps-in-flight", "N|auto",
               "Steps planned and not yet done. 2: one is planned while another is computed. auto: "
               "2 on a GPU, 1 on the CPU."},
              o.steps_in_flight, 1, kStepsInFlightMax);
  flags.Integer({"running-max", "N", "Answers (choices) computed at the same time."}, o.running_max,
                {1, kBlockUsersMax});
  flags.Integer({"requests-max", "N",
                 "Requests waiting and running; more get RESOURCE_EXHAUSTED with a retry delay."},
                o.requests_max, {1, 1 << 20});
  flags.Integer({"waiting-prompt-tokens-max", "N",
                 "Prompt tokens in the queue; more get RESOURCE_EXHAUSTED with a retry delay."},
                o.waiting_prompt_tokens_max, {1});
}

void BindAddresses(Options& o, Flags& flags) {
  flags.Group("Addresses");
  Address(flags,
          {"address", "HOST:PORT", "gRPC. Port 0 picks one. 0.0.0.0 lets other machines in."},
          o.address);
  Address(flags, {"metrics-address", "HOST:PORT", "Prometheus, at /metrics. Port 0 picks one."},
          o.metrics_address);
  Address(flags, {"admin-address", "HOST:PORT", "The Admin service apart. Empty: on --address."},
          o.admin_address);
  flags.String(
      {"port-file", "FILE", "Written once ready: {\"grpc\": N, \"metrics\": N}.", kPrivate},
      o.port_file);
  flags.Enum({"metrics-compat", "NAME", "vllm: the same values also under vllm:... names."},
             o.metrics_compat, kMetricsCompatNames);
}

void BindServerLimits(Options& o, Flags& flags) {
  flags.Group("Limits of the server");
  flags.Integer({"streams-max", "N", "Calls of Generate and Chat at the same time."}, o.streams_max,
                {1, 1 << 20});
  flags.Integer({"connection-streams-max", "N", "Calls of one connection at the same time."},
                o.connection_streams_max, {1, kInt32Max});
  flags.Bytes({"message-bytes-max", "SIZE", "Of a message that is received."}, o.message_bytes_max,
              {1024, 1 << 30});
  flags.Bytes({"receive-memory-max", "SIZE", "Of what connections have sent and nobody has taken."},
              o.receive_memory_max, {64 << 20});
  flags.Bytes({"metadata-bytes-max", "SIZE", "Of a call's metadata."}, o.metadata_bytes_max,
              {1024, kMetadataBytesLimitMax});
  flags.Integer({"text-threads", "N", "That tokenise and render templates."}, o.text_threads,
                {1, 256});
  flags.Integer(
      {"text-queue-max", "N", "Calls that wait for a text thread; more get RESOURCE_EXHAUSTED."},
      o.text_queue_max, {1, 1 << 20});
  flags.Bytes({"text-queue-bytes-max", "SIZE",
               "Of the messages of these calls together; more get RESOURCE_EXHAUSTED."},
              o.text_queue_bytes_max, {1 << 20});
  using std::chrono::hours;
  using std::chrono::milliseconds;
  flags.Interval({"write-stall-timeout", "TIME",
                  "A client that takes nothing for this long gets RESOURCE_EXHAUSTED."},
                 o.write_stall_timeout, {milliseconds(10), hours(24)});
  flags.Interval({"request-time-max", "TIME",
                  "From arrival to the last token; a deadline beyond it is shortened to it."},
                 o.request_time_max, {milliseconds(10), hours(24 * 365)});
  flags.Interval({"keepalive-time", "TIME", "Of silence before a connection is probed."},
                 o.keepalive_time, {milliseconds(1000), hours(24)});
  flags.Interval({"keepalive-timeout", "TIME", "For the answer to a probe."}, o.keepalive_timeout,
                 {milliseconds(100), hours(1)});
}

void BindRequestLimits(RequestLimits& r, Flags& flags) {
  flags.Group("Limits of a request (more gets INVALID_ARGUMENT)");
  flags.Integer({"prompt-tokens-max", "N", "Of a prompt. 0: what the context allows."},
                r.prompt_tokens_max, {0});
  flags.Integer({"choices-max", "N", "output.n"}, r.choices_max, {1, kChoicesMax});
  flags.Integer({"logprobs-max", "N", "output.logprobs and output.prompt_logprobs."},
                r.logprobs_max, {0, 128});
  flags.Bytes({"prompt-logprobs-bytes-max", "SIZE", "Of the prompt_logprobs of one answer."},
              r.prompt_logprobs_bytes_max, {0});
  flags.Integer({"stop-strings-max", "N", "output.stop"}, r.stop_strings_max, {0, 1024});
  flags.Integer({"stop-string-bytes-max", "N", "Of one stop string."}, r.stop_string_bytes_max,
                {1, 65536});
  flags.Integer({"stop-tokens-max", "N", "output.stop_token_ids"}, r.stop_tokens_max, {0, 4096});
  flags.Integer({"logit-bias-max", "N", "Entries of sampling.logit_bias."}, r.logit_bias_max,
                {0, 65536});
  flags.Integer({"messages-max", "N", "Of a conversation."}, r.messages_max, {1, 1 << 20});
  flags.Integer({"tools-max", "N", "Of a conversation."}, r.tools_max, {0, 65536});
  flags.Bytes({"template-arguments-bytes-max", "SIZE",
               "Of template_arguments_json, a tool call's arguments, a tool's parameters."},
              r.template_arguments_bytes_max, {2, 16 << 20});
  flags.Integer({"json-values-max", "N", "Members and elements in all JSON texts of a request."},
                r.json_values_max, {1, 1 << 24});
  flags.Bytes({"detokenize-bytes-max", "SIZE", "Of the text of a Detokenize."},
              r.detokenize_bytes_max, {1 << 10});
  flags.Integer({"cache-salt-bytes-max", "N", "cache.salt"}, r.cache_salt_bytes_max, {0, 65536});
  flags.Interval({"cache-ttl-max", "TIME", "cache.retention.ttl"}, r.cache_ttl_max,
                 {std::chrono::seconds(1), std::chrono::hours(24 * 365)});
  flags.Integer({"request-id-bytes-max", "N", "request_id"}, r.request_id_bytes_max, {1, 4096});
  flags.Integer({"tenant-bytes-max", "N", "x-tenant-id"}, r.tenant_bytes_max, {1, 4096});
  PriorityRange(flags, r);
}

void BindOperation(Options& o, Flags& flags) {
  flags.Group("Tenants and prompts");
  flags.Switch({"isolate-tenants", "", "Tenants (x-tenant-id) share no cached prefix."},
               o.isolate_tenants);
  flags.Switch({"allow-special-tokens-in-chat", "",
                "Special tokens that a client writes into a message count as such."},
               o.allow_special_tokens_in_chat);
  flags.Group("Operation");
  flags.String({"config", "FILE", "YAML: the same names as these flags; a flag wins.", kPrivate},
               o.config);
  flags.Enum({"log-level", "LEVEL", "To stderr. Prompts and tokens are never logged."}, o.log_level,
             kLogLevelNames);
  flags.Interval({"drain-timeout", "TIME", "After SIGTERM, for running requests to finish."},
                 o.drain_timeout, {std::chrono::seconds(0), std::chrono::hours(24)});
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) return NotFound("--config {} cannot be read", path);
  return std::move(text).str();
}

}  // namespace

void BindOptions(Options& options, Flags& flags) {
  BindModel(options, flags);
  BindCacheAndScheduler(options, flags);
  BindAddresses(options, flags);
  BindServerLimits(options, flags);
  BindRequestLimits(options.request, flags);
  BindOperation(options, flags);
}

std::string ServeHelp(const Flags& flags) {
  return fmt::format(
      "Serves a model over gRPC until SIGTERM, then drains; a second signal stops at once.\n\n"
      "Usage: incipit serve --model DIR [--flag value | --flag=value]...\n\n"
      "  incipit serve --model models/incipit-tiny\n"
      "  incipit serve --model DIR --address 0.0.0.0:50051 --metrics-address 0.0.0.0:9464\n"
      "  incipit serve --config incipit.yaml        # model: DIR, step-tokens: 512, ...\n\n"
      "{}\n"
      "Exit codes: 0 stopped as asked, 1 the engine failed, 2 a wrong flag or configuration,\n"
      "3 the model cannot be served, 4 an address cannot be bound, 5 the device cannot be used.\n",
      flags.Help());
}

KvCacheOptions CacheOptionsOf(const Options& options) {
  KvCacheOptions cache;
  cache.block_size = options.block_size;
  cache.hash = options.prefix_cache_hash;
  cache.seed = options.prefix_cache_seed;
  cache.prefix_cache = options.prefix_cache;
  cache.policy = options.prefix_cache_policy;
  cache.copy_on_write = options.copy_on_write;
  cache.retention.tenant_share_max = options.cache_retention_share_max;
  cache.retention.duration_max = std::chrono::seconds(options.cache_retention_max_s);
  return cache;
}

absl::Status Validate(const Options& options) {
  if (options.model.empty()) return InvalidArgument("--model is missing: the folder to serve");
  if ((options.block_size & (options.block_size - 1)) != 0) {
    return InvalidArgument("--block-size is {}; it must be a power of two from 1 to 256",
                           options.block_size);
  }
  if (options.kv_blocks && options.kv_memory > 0) {
    return InvalidArgument("--kv-blocks and --kv-memory exclude each other");
  }
  if (options.admin_address == options.address && options.address.port != 0) {
    return InvalidArgument("--admin-address is {}, the same as --address; leave it empty for that",
                           ToString(options.address));
  }
  if (options.metrics_address == options.address && options.address.port != 0) {
    return InvalidArgument("--metrics-address is {}, the same as --address",
                           ToString(options.address));
  }
  return absl::OkStatus();
}

absl::Status ApplyConfig(std::string_view yaml, std::string_view name, Flags& flags) {
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    if (root.IsNull()) return absl::OkStatus();
    if (!root.IsMap()) {
      return InvalidArgument("{}: must be a mapping of flag names to values", name);
    }
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const auto key = entry.first.as<std::string>();
      const std::string where = fmt::format("{}:{}", name, entry.first.Mark().line + 1);
      if (!entry.second.IsScalar()) return InvalidArgument("{}: {} must be one value", where, key);
      if (!seen.insert(key).second) return InvalidArgument("{}: {} stands twice", where, key);
      if (key == "config") return InvalidArgument("{}: config cannot name another file", where);
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
    INCIPIT_ASSIGN_OR_RETURN(const std::string text, ReadFile(first.config));
    INCIPIT_RETURN_IF_ERROR(ApplyConfig(text, first.config, flags));
  }
  INCIPIT_RETURN_IF_ERROR(flags.ParseAll(args));
  if (flags.help_requested()) return absl::OkStatus();
  return Validate(options);
}

}  // namespace incipit
