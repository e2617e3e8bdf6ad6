// From a trace to blocks: which sizes it can be looked at in, and what is odd about it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/enum_names.h"
#include "cli/analysis/analyze_blocks.h"
#include "cli/analysis/trace.h"

namespace incipit {

// The smallest block where --block-size does not say. Mooncake's traces have 512 tokens an id.
inline constexpr int32_t kTokenLogBlockSize = 8;
inline constexpr int32_t kHashLogBlockSize = 512;
inline constexpr int32_t kAnalyzedBlockSizeMax = 1 << 16;

struct AnalysisInput {
  std::string name;  // of the log, for messages
  TraceForm form = TraceForm::kHashIds;
  std::unique_ptr<BlockLog> log;
  std::vector<int32_t> groups;     // of the log's blocks, for each block size; ascending
  size_t detail = 0;               // the one of `groups` for what is shown at one size only
  int64_t output_tokens = 0;       // as far as the log says
  std::vector<std::string> notes;  // what a reader should know before trusting the figures
};

enum class TimestampUnit : uint8_t { kSeconds, kMilliseconds, kMicroseconds, kNanoseconds };

inline constexpr EnumName<TimestampUnit> kTimestampUnitNames[] = {
    {TimestampUnit::kSeconds, "s"},
    {TimestampUnit::kMilliseconds, "ms"},
    {TimestampUnit::kMicroseconds, "us"},
    {TimestampUnit::kNanoseconds, "ns"}};

struct BlockingOptions {
  std::string name;
  std::optional<int32_t> block_size;  // of the smallest block; of a hash id
  TimestampUnit timestamp_unit = TimestampUnit::kMilliseconds;  // of timestamps
};

// Between the first request and any other; timestamps further apart are in another unit.
inline constexpr double kLogSecondsMax = 1e10;

// Errors name the log and the line: RESOURCE_EXHAUSTED where it gets too large, INVALID_ARGUMENT
// for a time beyond kLogSecondsMax.
absl::StatusOr<AnalysisInput> MakeBlocks(Trace trace, const BlockingOptions& options);

}  // namespace incipit
