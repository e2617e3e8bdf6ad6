// The result of an analysis, from which tables, JSON and plots are made.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "cli/analysis/analyze_input.h"
#include "cli/analysis/analyze_reuse.h"
#include "cli/analysis/analyze_sharing.h"

namespace incipit {

// Shares of the attainable hits, in percent, for which the needed cache sizes are reported.
inline constexpr int32_t kWantedPercents[] = {50, 80, 95};

struct BlockSizeAnalysis {
  int64_t block_tokens = 0;
  ReuseCurve curve;
  std::vector<WorkingSet::Peak> peaks;  // [window]: maximum of the working set
  int64_t num_sharing_requests = 0, num_blocks_used_once = 0;  // same meaning as in Sharing
};

struct Analysis {
  std::string name;  // name of the log
  std::string form;  // content of the log: "hash_ids" or "token_ids"
  int64_t output_tokens = 0;
  double seconds = 0;  // time from the first to the last request; 0 without timestamps
  std::vector<BlockSizeAnalysis> sizes;  // one for each block size, ascending; not empty
  size_t detail = 0;  // index in `sizes` of the block size that the fields below use
  Sharing sharing;
  std::vector<std::string> beginnings;  // [index in sharing.top]: first characters or ids
  WorkingSet working_set;
  std::optional<int64_t> bytes_per_token;  // bytes of keys and values per token
  std::vector<std::string> notes;          // contradictions in the log

  const BlockSizeAnalysis& detailed() const { return sizes[detail]; }
};

struct AnalysisOptions {
  std::optional<double> window;            // length in seconds; absent: round fractions of the log
  std::optional<int64_t> bytes_per_token;  // bytes of keys and values per token
  size_t num_top_prefixes = 10;
  // Converts the first token ids of a shared prefix to text. If `decode` is empty, the ids are
  // shown.
  std::function<std::string(std::span<const TokenId>)> decode;
};

// Analyses `input`. Returns FAILED_PRECONDITION if `options.window` is set and the log has no
// timestamps.
absl::StatusOr<Analysis> Analyze(const AnalysisInput& input, const AnalysisOptions& options);

// Returns the size of the keys and values of `num_tokens` tokens in GiB, or nothing if
// bytes_per_token is not known.
std::optional<double> GibOf(const Analysis& analysis, int64_t num_tokens);

// Returns the length of window `window` as text, such as "5 min" or "1,000 requests".
std::string WindowText(const WorkingSet& set, size_t window);

// One cache size of a hit-ratio curve.
struct CurveCapacity {
  int64_t num_blocks = 0;  // blocks that the cache holds
  int32_t percent = 0;     // percentage of the distinct blocks; 0 for a size that only plots show
};
// Returns the cache sizes, in ascending order, for which the hit ratio is shown: fixed percentages
// of the distinct blocks for a table, and up to `num_points` more sizes for a plot. The sizes for
// the plot are closer to each other for small caches.
std::vector<CurveCapacity> CurveCapacities(const ReuseCurve& curve, int32_t num_points);

}  // namespace incipit
