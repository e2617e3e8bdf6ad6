#include "server/engine_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "server/metrics/metrics.h"

namespace incipit {
namespace {

constexpr std::string_view kAutoValue = "auto";
// Value of FlagText::is_private for a secret: the server does not report the value to clients.
constexpr bool kSecret = true;
constexpr EnumName<LoadPolicy> kLoadPolicyNames[] = {{LoadPolicy::kFaster, "faster"},
                                                     {LoadPolicy::kAlways, "always"}};
constexpr EnumName<SchedulingKind> kSchedulingNames[] = {{SchedulingKind::kFair, "fair"},
                                                         {SchedulingKind::kFcfs, "fcfs"}};
// Smallest and largest weight in --tenant-weights.
constexpr double kWeightMin = 0.001, kWeightMax = 1000;

// Parses "NAME=X,NAME=X" into `weights`.
absl::Status ParseWeights(std::string_view value, std::map<std::string, double>& weights) {
  weights.clear();
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(value.data(), value.size()), ',', absl::SkipEmpty())) {
    const std::string entry(part);
    const size_t equals = entry.rfind('=');
    double weight = 0;
    if (equals == std::string::npos || equals == 0 ||
        !absl::SimpleAtod(entry.substr(equals + 1), &weight) ||
        !(weight >= kWeightMin && weight <= kWeightMax)) {
      return InvalidArgument(
          "has the entry \"{}\"; an entry must be a tenant's name, '=' and a number from {} to {}",
          entry.substr(0, 80), kWeightMin, kWeightMax);
    }
    if (!weights.emplace(entry.substr(0, equals), weight).second) {
      return InvalidArgument("has two entries for the tenant \"{}\"", entry.substr(0, equals));
    }
  }
  if (static_cast<int32_t>(weights.size()) <= kTenantsMax) return absl::OkStatus();
  return InvalidArgument("has {} entries; it must have at most {}", weights.size(), kTenantsMax);
}

std::string WeightsText(const std::map<std::string, double>& weights) {
  return absl::StrJoin(weights, ",", [](std::string* out, const auto& entry) {
    fmt::format_to(std::back_inserter(*out), "{}={}", entry.first, entry.second);
  });
}

void BindPrefixCache(Options& o, Flags& flags) {
  flags.Switch(
      {"prefix-cache", "",
       "on: the server keeps the keys and values of computed tokens in the KV cache. Later "
       "requests with the same prefix (beginning of the prompt) reuse these keys and values."},
      o.prefix_cache);
  flags.Enum({"prefix-cache-hash", "NAME",
              "Hash function for the keys of cache blocks. xxh3_128 is faster than sha256. "
              "sha256_cbor and xxh3_128_cbor can compute the same keys as vLLM, another inference "
              "server. xxhash is another name for xxh3_128, and xxhash_cbor for xxh3_128_cbor. "
              "With --disk-cache, the server uses sha256 instead of xxh3_128, and sha256_cbor "
              "instead of xxh3_128_cbor."},
             o.prefix_cache_hash, kHashAlgorithmNames);
  flags.String({"prefix-cache-seed", "TEXT",
                "Text from which the keys of cache blocks are computed, together with the tokens. "
                "Servers with different texts compute different keys. Default: empty.",
                kSecret},
               o.prefix_cache_seed);
  flags.Enum({"prefix-cache-policy", "NAME",
              "Eviction policy: the rule that selects the cached blocks that are evicted first."},
             o.prefix_cache_policy, kEvictionPolicyNames);
  flags.Switch({"copy-on-write", "",
                "on: a prompt can reuse a part of a cached block. If at least the first quarter of "
                "the block's tokens equals the prompt's tokens, the server copies the keys and "
                "values of the equal tokens."},
               o.copy_on_write);
  flags.Real({"cache-retention-share-max", "X",
              "Maximum share of all cache blocks that one tenant may keep with "
              "cache.retention.pin, or with a cache.retention.priority above the default 50."},
             o.cache_retention_share_max, {0, 1});
  flags.Integer({"cache-retention-max-s", "SECONDS",
                 "Time in which a cache.retention.priority above 50 falls to 50 after the end of a "
                 "request. Also the maximum time for which cache.retention.pin keeps blocks."},
                o.cache_retention_max_s, {1, 86400});
}

void BindDiskCache(Options& o, Flags& flags) {
  flags.String({"disk-cache", "DIR",
                "Folder in which the server stores keys and values of computed prefixes, so that "
                "they survive evictions and restarts. The server creates the folder, which must be "
                "private to the user of the server. Default: empty, no disk cache.",
                kSecret},
               o.disk_cache);
  flags.Bytes(
      {"disk-cache-size", "SIZE",
       "Maximum size of all files in --disk-cache. If the folder is full, the least recently "
       "used files are deleted. At least 256 MiB."},
      o.disk_cache_size, {0, int64_t{64} << 40});
  flags.Real(
      {"tier-tenant-share-max", "X",
       "Maximum share of --disk-cache-size for the chunks of one tenant (x-tenant-id). Chunks "
       "above this share are not stored. 1: no limit."},
      o.tier_tenant_share_max, {0, 1});
  flags.Enum({"tier-store", "NAME",
              "Chunks (128 tokens or less) that the disk cache stores. all: every computed chunk. "
              "reused: only chunks that at least two requests contained."},
             o.tier_store, kStorePolicyNames);
  flags.Bytes({"tier-write-max", "SIZE",
               "Maximum number of bytes per second that the server writes to --disk-cache. Chunks "
               "above this rate are not stored. 0: no limit."},
              o.tier_write_max, {0});
  flags.Bytes(
      {"tier-staging", "SIZE",
       "Memory for chunks that are copied between the device and the disk. If a prompt needs more "
       "memory, its chunks are loaded in parts. If the memory is full, loads wait at most "
       "--tier-wait-max, and chunks are not stored."},
      o.tier_staging, {1 << 20, int64_t{64} << 30});
  flags.Integer({"tier-loads-max", "N",
                 "Maximum number of requests that wait for the disk cache at the same time. Later "
                 "requests with chunks in the disk cache stay in the queue."},
                o.tier_loads_max, {1, 1 << 16});
  flags.Enum({"tier-load", "NAME",
              "Chunks in the disk cache that a request loads instead of computing them. faster: "
              "only if the predicted time of the load is below the predicted computing time. "
              "always: all chunks, so that the device can compute tokens of other requests."},
             o.tier_load, kLoadPolicyNames);
  flags.Interval({"tier-wait-max", "TIME",
                  "Maximum time that a request waits for the disk cache. After this time, the "
                  "request computes the chunks that are not loaded. 0: half of the predicted "
                  "computing time of the chunks. With --tier-load always, 0: twice the predicted "
                  "time of the load, but at least 1s."},
                 o.tier_wait_max, {Duration{}, std::chrono::minutes(10)});
  flags.Interval({"tier-drain-timeout", "TIME",
                  "Maximum time at the end of the server for writing chunks to --disk-cache: the "
                  "chunks that are still in --tier-staging, and the cached chunks that only the "
                  "device has."},
                 o.tier_drain_timeout, {Duration{}, std::chrono::minutes(10)});
}

void BindPolicy(Options& o, Flags& flags) {
  flags.Enum({"scheduling", "NAME",
              "Order of waiting requests. fair: tenants share the server equally, or by "
              "--tenant-weights; priorities order only the requests of the same tenant. fcfs: "
              "requests of all tenants are ordered by priority and then by arrival."},
             o.scheduling, kSchedulingNames);
  flags.Interval({"priority-aging", "TIME",
                  "Time in which the priority of a waiting request rises by 1, so that no request "
                  "waits for ever. 0: priorities do not rise."},
                 o.priority_aging, {Duration{}, std::chrono::hours(24)});
  flags.Integer(
      {"reorder-window", "N",
       "The scheduler compares the cached prefixes of the first N waiting requests of a tenant. "
       "The request with the longest cached prefix starts first. At most 64 later requests "
       "overtake a request. 1: the cache does not change the order."},
      o.reorder_window, {1, 4096});
  flags.Integer({"long-prefill-tokens", "N",
                 "Among prompts that --scheduling ranks equally, the prompt with the fewest tokens "
                 "left to compute goes first. Prompts with at most this number of tokens left "
                 "count as equally short. In each step (batch), a quarter of the prompt tokens is "
                 "reserved for the oldest prompt."},
                o.long_prefill_tokens, {1, std::numeric_limits<int32_t>::max()});
  flags.Interval({"itl-target", "TIME",
                  "Maximum predicted duration of a step (batch) that computes prompt tokens while "
                  "other requests generate output. 0: --itl-ratio times the duration of the same "
                  "step without prompt tokens."},
                 o.itl_target, {Duration{}, std::chrono::minutes(10)});
  flags.Real({"itl-ratio", "X",
              "Used if --itl-target is 0: the predicted duration of a step (batch) that computes "
              "prompt tokens while other requests generate output is at most X times the duration "
              "of the same step without prompt tokens. If a prompt ends in the step, further "
              "prompts may lengthen the step only to 1.9 times. If prompts would miss "
              "--ttft-target, steps may be longer."},
             o.itl_ratio, {1, 1000});
  flags.Interval({"ttft-target", "TIME",
                  "Maximum predicted time for computing the prompts in steps (batches) that "
                  "respect --itl-target. If the prompts need more time, steps ignore --itl-target "
                  "and compute up to --step-tokens tokens each. 0: 5 times the time that an "
                  "average prompt needs alone, at least 1 s."},
                 o.ttft_target, {Duration{}, std::chrono::hours(1)});
  flags.Interval(
      {"arrival-pause-max", "TIME",
       "Maximum duration of a pause between two steps (batches). In a pause, the server waits for "
       "new requests. The server pauses after a step in which requests ended, if at least half of "
       "the new requests arrived during recent pauses. No pause is longer than a quarter of a step "
       "without prompt tokens. 0: no pauses."},
      o.arrival_pause_max, {Duration{}, std::chrono::seconds(1)});
  flags.Integer({"preemptions-max", "N",
                 "Sequences (outputs of requests) that were preempted fewer times than this number "
                 "are preempted first."},
                o.preemptions_max, {0, 1 << 20});
}

void BindShares(Options& o, Flags& flags) {
  flags.Real({"output-price", "X",
              "Price of an output token. With --scheduling fair, prices measure how much of the "
              "server each tenant has used. A computed prompt token has the price 1."},
             o.output_price, {0, 1000});
  flags.Real({"cached-price", "X",
              "Price of a prompt token from the cache. With --scheduling fair, prices measure how "
              "much of the server each tenant has used. A computed prompt token has the price 1."},
             o.cached_price, {0, 1000});
  flags.Custom(
      {"tenant-weights", "NAME=X,...",
       "Weights of tenants (names in x-tenant-id) for --scheduling fair. A tenant with weight 2 "
       "gets twice as much of the server as a tenant with weight 1. All other tenants have weight "
       "1. Default: empty."},
      [&o](std::string_view value) { return ParseWeights(value, o.tenant_weights); },
      [&o] { return WeightsText(o.tenant_weights); });
}

}  // namespace

void AutoInteger(Flags& flags, FlagText text, std::optional<int32_t>& target, int32_t min,
                 int32_t max) {
  flags.Custom(
      text,
      [&target, min, max](std::string_view value) -> absl::Status {
        if (value == kAutoValue) {
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
      [&target] { return target ? fmt::to_string(*target) : std::string(kAutoValue); });
}

void BindCache(Options& o, Flags& flags) {
  flags.Group("Cache");
  BindPrefixCache(o, flags);
  flags.Integer({"block-size", "N", "Number of tokens in a cache block; must be a power of two."},
                o.block_size, {1, 256});
  AutoInteger(flags,
              {"kv-blocks", "N|auto", "Number of cache blocks. auto: computed from --kv-memory."},
              o.kv_blocks, 1, kBlocksMax);
  flags.Bytes({"kv-memory", "SIZE",
               "Memory for the KV cache. 0: on a CPU, half of the free memory; on a GPU, the share "
               "--gpu-memory-fraction of the free GPU memory."},
              o.kv_memory, {0});
  flags.Real({"gpu-memory-fraction", "X",
              "Share of the free GPU memory that the KV cache uses. The server measures the free "
              "memory after it has loaded the weights. The flag has an effect only with --backend "
              "cuda, and only if neither --kv-blocks nor --kv-memory is set."},
             o.gpu_memory_fraction, {0.01, 0.95});
  BindDiskCache(o, flags);
}

void BindScheduling(Options& o, Flags& flags) {
  flags.Group("Scheduling");
  AutoInteger(flags,
              {"step-tokens", "N|auto",
               "Maximum number of tokens in one step (batch). auto: the server measures steps at "
               "its start, and selects a number for which a step takes less than half a second."},
              o.step_tokens, 1);
  AutoInteger(
      flags,
      {"steps-in-flight", "N|auto",
       "Maximum number of steps (batches) that are planned but not complete. 2: the next step is "
       "planned while the current step is computed. auto: 2 on a GPU, 1 on the CPU."},
      o.steps_in_flight, 1, kStepsInFlightMax);
  flags.Integer({"running-max", "N",
                 "Maximum number of sequences (outputs of requests) that run at the same time."},
                o.running_max, {1, kBlockUsersMax});
  flags.Integer({"requests-max", "N",
                 "Maximum number of requests that the server parses, queues and runs at the same "
                 "time; further requests get RESOURCE_EXHAUSTED with a retry delay."},
                o.requests_max, {1, 1 << 20});
  flags.Integer({"waiting-prompt-tokens-max", "N",
                 "Maximum number of prompt tokens of all requests that wait in the queue; further "
                 "requests get RESOURCE_EXHAUSTED with a retry delay."},
                o.waiting_prompt_tokens_max, {1});
  BindPolicy(o, flags);
  BindShares(o, flags);
}

HashAlgorithm KeyHashOf(const Options& options) {
  const HashAlgorithm hash = options.prefix_cache_hash;
  return options.disk_cache.empty() ? hash : WithSha256(hash);
}

KvCacheOptions CacheOptionsOf(const Options& options) {
  KvCacheOptions cache;
  cache.block_size = options.block_size;
  cache.hash = KeyHashOf(options);
  cache.seed = options.prefix_cache_seed;
  cache.prefix_cache = options.prefix_cache;
  cache.policy = options.prefix_cache_policy;
  cache.copy_on_write = options.copy_on_write;
  cache.retention.tenant_share_max = options.cache_retention_share_max;
  cache.retention.duration_max = std::chrono::seconds(options.cache_retention_max_s);
  return cache;
}

SchedulerOptions SchedulerOptionsOf(const Options& options) {
  SchedulerOptions scheduler;
  scheduler.running_max = options.running_max;
  scheduler.scheduling = options.scheduling;
  scheduler.priority_aging = options.priority_aging;
  scheduler.reorder_window = options.reorder_window;
  scheduler.long_prefill_tokens = options.long_prefill_tokens;
  scheduler.itl_target = options.itl_target;
  scheduler.itl_ratio = options.itl_ratio;
  scheduler.ttft_target = options.ttft_target;
  scheduler.preemptions_max = options.preemptions_max;
  scheduler.loads_max = options.tier_loads_max;
  scheduler.load_policy = options.tier_load;
  scheduler.load_wait_max = options.tier_wait_max;
  scheduler.shares.output_price = options.output_price;
  scheduler.shares.cached_price = options.cached_price;
  for (const auto& [name, weight] : options.tenant_weights) {
    scheduler.shares.weights[TenantDigest(name)] = weight;
  }
  for (const std::string& name : ReportedTenants(options)) {
    scheduler.shares.reported.push_back(TenantDigest(name));
  }
  return scheduler;
}

std::vector<std::string> ReportedTenants(const Options& options) {
  std::vector<std::string> names;
  for (const auto& entry : options.tenant_weights) {
    if (entry.first != kOtherTenants) names.push_back(entry.first);
  }
  std::ranges::stable_sort(names, std::ranges::greater{}, [&](const std::string& name) {
    return options.tenant_weights.at(name);
  });
  names.resize(std::min(names.size(), kReportedTenantsMax));
  return names;
}

}  // namespace incipit
