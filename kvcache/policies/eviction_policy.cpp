#include "kvcache/policies/eviction_policy.h"

#include "base/check.h"
#include "kvcache/policies/adaptive_policy.h"
#include "kvcache/policies/arc_policy.h"
#include "kvcache/policies/lfu_aging_policy.h"
#include "kvcache/policies/lru2_policy.h"
#include "kvcache/policies/lru_policy.h"
#include "kvcache/policies/s3_fifo_policy.h"

namespace incipit {
std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(EvictionPolicyKind kind, std::span<Block> blocks,
                                                   int32_t capacity, int32_t block_size) {
  INCIPIT_CHECK(capacity >= 1 && block_size >= 1);
  switch (kind) {
    case EvictionPolicyKind::kLru:
      return std::make_unique<LruPolicy>(blocks);
    case EvictionPolicyKind::kLfuAging:
      return std::make_unique<LfuAgingPolicy>(blocks);
    case EvictionPolicyKind::kLru2:
      return std::make_unique<Lru2Policy>(blocks, capacity);
    case EvictionPolicyKind::kArc:
      return std::make_unique<ArcPolicy>(blocks, capacity);
    case EvictionPolicyKind::kS3Fifo:
      return std::make_unique<S3FifoPolicy>(blocks, capacity);
    case EvictionPolicyKind::kAdaptive:
      return std::make_unique<AdaptivePolicy>(blocks, capacity, block_size);
  }
  return nullptr;
}

}  // namespace incipit
