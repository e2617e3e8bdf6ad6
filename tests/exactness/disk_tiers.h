// Disk tiers for tests of exactness with an engine.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "tests/exactness/model_engine.h"
#include "tests/tier/tier_harness.h"

namespace incipit {

// The tier of a test. kSmallStaging: staging has so few slots that long prefixes arrive in parts.
enum class TestTier : uint8_t { kNone, kDisk, kSmallStaging };

// Disk tiers on one temporary folder.
class DiskTiers {
 public:
  explicit DiskTiers(TestTier kind) : kind_(kind) {}

  // Returns a function that starts the tier again, with the files of earlier tiers.
  TierOpener opener() {
    if (kind_ == TestTier::kNone) return {};
    return [this](const ChunkShape& shape) { return Open(shape); };
  }

 private:
  // Staging of the first tier is large in any case, because the tier drops stores without a slot.
  PrefixTier* Open(const ChunkShape& shape) {
    const bool is_first = harness_.tier == nullptr;
    if (!is_first) {
      EXPECT_TRUE(harness_.tier->Flush(std::chrono::seconds(20)));
    }
    const bool is_small = kind_ == TestTier::kSmallStaging && !is_first;
    const uint64_t record_bytes = RecordLayout(shape).record_bytes;
    harness_.options.shape = shape;
    harness_.options.segment_bytes = 512 * record_bytes;
    harness_.options.size_bytes = 8 * harness_.options.segment_bytes;
    harness_.options.staging_bytes = (is_small ? 4 : 512) * record_bytes;
    harness_.Start();
    return harness_.tier.get();
  }

  TestTier kind_;
  TierHarness harness_;
};

}  // namespace incipit
