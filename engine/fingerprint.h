// Declares Fingerprint, which determines whether keys and values of an earlier process may be used.
#pragma once

#include <string>

#include "kernels/backend.h"
#include "kvcache/tiers/chunk.h"
#include "transformer/config.h"
#include "transformer/weights_digest.h"

namespace incipit {

struct FingerprintParts {
  const ModelConfig* model = nullptr;
  WeightsDigest weights{};
  WeightFormat weight_format = WeightFormat::kAsStored;
  DType kv_dtype = DType::kF32;
  ChunkShape chunk;
  std::string backend;   // BackendLimits::name
  std::string numerics;  // BackendLimits::numerics
  Shard shard;
};

// Returns all parts as text, one `name value` pair in each line. An operator can compare the texts
// of two servers to find out why their fingerprints differ.
std::string FingerprintText(const FingerprintParts& parts);

// Returns the SHA-256 digest of FingerprintText.
Fingerprint FingerprintOf(const FingerprintParts& parts);

}  // namespace incipit
