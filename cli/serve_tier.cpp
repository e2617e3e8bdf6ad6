#include "cli/serve_tier.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "engine/fingerprint.h"
#include "kernels/finite.h"
#include "transformer/weights_digest.h"

namespace incipit {
namespace {

FiniteCheck FiniteCheckOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return [](std::span<const std::byte> bytes) { return AllFinite(DType::kF32, bytes); };
    case DType::kF16:
      return [](std::span<const std::byte> bytes) { return AllFinite(DType::kF16, bytes); };
    case DType::kBF16:
      return [](std::span<const std::byte> bytes) { return AllFinite(DType::kBF16, bytes); };
  }
  return nullptr;
}

void LogState(const std::string& folder, TierState state, const absl::Status& reason) {
  switch (state) {
    case TierState::kStarting:
      return;
    case TierState::kOn:
      spdlog::info("the disk cache in {} is on", folder);
      return;
    case TierState::kLocked:
      spdlog::warn(
          "the disk cache is off: another server uses {}; this server uses the folder when the "
          "other server has ended",
          folder);
      return;
    case TierState::kOff:
      spdlog::error("the disk cache is off, and will be tried again: {}", MessageOf(reason));
      return;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<DiskTier>> CreateDiskTier(const Options& options,
                                                         const Backend& backend, const Model& model,
                                                         const TransformerRunner& runner) {
  if (options.disk_cache.empty()) return nullptr;
  if (KeyHashOf(options) != options.prefix_cache_hash) {
    spdlog::warn(
        "--prefix-cache-hash {} is replaced by {}, because different chunks in --disk-cache must "
        "never have equal keys",
        NameOf(options.prefix_cache_hash), NameOf(KeyHashOf(options)));
  }
  static const SteadyClock clock;
  DiskTierOptions tier;
  tier.directory = options.disk_cache;
  tier.size_bytes = static_cast<uint64_t>(options.disk_cache_size);
  tier.staging_bytes = static_cast<uint64_t>(options.tier_staging);
  tier.write_bytes_per_second = static_cast<uint64_t>(options.tier_write_max);
  tier.tenant_share_max = options.tier_tenant_share_max;
  tier.store = options.tier_store;
  tier.shape = MakeChunkShape(runner.options().block_size, runner.block_bytes());
  tier.is_finite = FiniteCheckOf(*runner.options().kv_dtype);
  tier.clock = &clock;
  tier.unix_seconds = UnixSeconds;
  tier.on_state = [folder = options.disk_cache](TierState state, const absl::Status& reason) {
    LogState(folder, state, reason);
  };
  // The digest of the weights is cached in the folder, which must be private before.
  auto files = MakePosixFileSystem(tier.directory, tier.io);
  INCIPIT_RETURN_IF_ERROR(files->Prepare());
  const Time begin = clock.Now();
  const CachedWeightsDigest weights = DigestWeightsCached(
      model.checkpoint,
      {.cache_file = std::filesystem::path(options.disk_cache) / "weights-digest",
       .num_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency())),
       .now_ns = UnixTime().count()});
  if (!weights.write_status.ok()) {
    spdlog::warn("the next start computes the digest of the weights again: {}",
                 MessageOf(weights.write_status));
  }
  tier.fingerprint = FingerprintOf({.model = &model.config,
                                    .weights = weights.digest,
                                    .weight_format = options.weights,
                                    .kv_dtype = *runner.options().kv_dtype,
                                    .chunk = tier.shape,
                                    .backend = backend.limits().name,
                                    .numerics = backend.limits().numerics,
                                    .shard = {}});
  spdlog::info(
      "the disk cache stores chunks of {} tokens ({} KiB); the digest of the weights took "
      "{:.2f} s{}",
      tier.shape.num_tokens(), tier.shape.num_bytes() >> 10, ToSeconds(clock.Now() - begin),
      weights.is_from_cache ? " (from the folder of the disk cache)" : "");
  return DiskTier::Create(std::move(tier), std::move(files));
}

}  // namespace incipit
