// Converts the parsed log of requests (Trace) to blocks, and reports contradictions in the log.
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

// Default of --block-size in tokens, for logs of texts and token ids.
inline constexpr int32_t kTokenLogBlockSize = 8;
// Default of --block-size in tokens, for logs of hash ids, as in the published Mooncake traces.
inline constexpr int32_t kHashLogBlockSize = 512;
inline constexpr int32_t kAnalyzedBlockSizeMax = 1 << 16;

struct AnalysisInput {
  std::string name;  // name of the log file, for messages to the user
  TraceForm form = TraceForm::kHashIds;
  std::unique_ptr<BlockLog> log;
  // The analysed block sizes in ascending order, as multiples of the block size of `log`.
  std::vector<int32_t> groups;
  // Tables for only one block size use the block size groups[detail].
  size_t detail = 0;
  int64_t output_tokens = 0;  // sum of the output lengths of all requests in the log
  // Sentences about contradictions in the log, such as decreasing timestamps.
  std::vector<std::string> notes;
};

enum class TimestampUnit : uint8_t { kSeconds, kMilliseconds, kMicroseconds, kNanoseconds };

inline constexpr EnumName<TimestampUnit> kTimestampUnitNames[] = {
    {TimestampUnit::kSeconds, "s"},
    {TimestampUnit::kMilliseconds, "ms"},
    {TimestampUnit::kMicroseconds, "us"},
    {TimestampUnit::kNanoseconds, "ns"}};

// Returns the number of seconds in one `unit`.
double SecondsOf(TimestampUnit unit);

struct BlockingOptions {
  std::string name;
  // Number of tokens in the smallest analysed block. In a log of hash ids: number of tokens that
  // each hash id stands for.
  std::optional<int32_t> block_size;
  TimestampUnit timestamp_unit = TimestampUnit::kMilliseconds;  // unit of the timestamps in the log
};

// Maximum number of seconds between the first request of a log and any other request. A larger
// difference probably means that --time-unit is wrong.
inline constexpr double kLogSecondsMax = 1e10;

// Converts `trace` (a parsed log of requests) to blocks. Returns RESOURCE_EXHAUSTED if there are
// too many blocks, and INVALID_ARGUMENT if a timestamp is more than kLogSecondsMax from the first
// timestamp.
absl::StatusOr<AnalysisInput> MakeBlocks(Trace trace, const BlockingOptions& options);

}  // namespace incipit
