// Creates the disk cache of a server (flag --disk-cache).
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/transformer_runner.h"
#include "kernels/backend.h"
#include "server/options.h"
#include "tier/disk_tier.h"
#include "transformer/model.h"

namespace incipit {

// Computes the fingerprint of the keys and values, and creates the disk cache. Returns null if
// --disk-cache is empty. Errors: those of DiskTier::Create, and errors of reading the weights.
absl::StatusOr<std::unique_ptr<DiskTier>> CreateDiskTier(const Options& options,
                                                         const Backend& backend, const Model& model,
                                                         const TransformerRunner& runner);

}  // namespace incipit
