// Lists the eviction policies with which parameterised tests run, and names these tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kvcache/policies/eviction_policy.h"

namespace incipit {

inline constexpr EvictionPolicyKind kPolicyKinds[] = {
    EvictionPolicyKind::kLru, EvictionPolicyKind::kLfuAging, EvictionPolicyKind::kLru2,
    EvictionPolicyKind::kArc, EvictionPolicyKind::kS3Fifo,   EvictionPolicyKind::kAdaptive,
};

inline std::string PolicyTestName(const testing::TestParamInfo<EvictionPolicyKind>& info) {
  static constexpr const char* kNames[] = {"Lru", "LfuAging", "Lru2", "Arc", "S3Fifo", "Adaptive"};
  return kNames[static_cast<size_t>(info.param)];
}

}  // namespace incipit
