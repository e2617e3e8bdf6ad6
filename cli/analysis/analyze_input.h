// Converts a trace (a parsed log of requests) into blocks, chooses the block sizes of the analysis
// and reports contradictions in the log.
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

// Number of tokens of the smallest analysed block if --block-size is not given. The first constant
// is for logs of token ids. The second constant is for hash ids, because a hash id of the Mooncake
// traces stands for 512 tokens.
inline constexpr int32_t kTokenLogBlockSize = 8;
inline constexpr int32_t kHashLogBlockSize = 512;
inline constexpr int32_t kAnalyzedBlockSizeMax = 1 << 16;

struct AnalysisInput {
  std::string name;  // name of the log of requests, for messages
  TraceForm form = TraceForm::kHashIds;
  std::unique_ptr<BlockLog> log;
  // Analysed block sizes, as ascending multiples of the block size of `log`.
  std::vector<int32_t> groups;
  size_t detail = 0;  // index in `groups` of the block size that tables with only one size show
  int64_t output_tokens = 0;       // sum of the output lengths of all requests in the log
  std::vector<std::string> notes;  // contradictions in the data of the log, as sentences
};

enum class TimestampUnit : uint8_t { kSeconds, kMilliseconds, kMicroseconds, kNanoseconds };

inline constexpr EnumName<TimestampUnit> kTimestampUnitNames[] = {
    {TimestampUnit::kSeconds, "s"},
    {TimestampUnit::kMilliseconds, "ms"},
    {TimestampUnit::kMicroseconds, "us"},
    {TimestampUnit::kNanoseconds, "ns"}};

struct BlockingOptions {
  std::string name;
  std::optional<int32_t> block_size;  // number of tokens of the smallest block or of one hash id
  TimestampUnit timestamp_unit = TimestampUnit::kMilliseconds;  // unit of the timestamps in the log
};

// Maximum number of seconds between the first request and any other request. Timestamps that are
// further apart probably have another unit.
inline constexpr double kLogSecondsMax = 1e10;

// Builds the block log of `trace` (a parsed log of requests). Errors name the log and the line.
// Returns RESOURCE_EXHAUSTED if the log has too many blocks, and INVALID_ARGUMENT for a time beyond
// kLogSecondsMax.
absl::StatusOr<AnalysisInput> MakeBlocks(Trace trace, const BlockingOptions& options);

}  // namespace incipit
