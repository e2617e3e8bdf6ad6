// The result of the analysis of a log of prompts, from which tables, JSON and plots are made.
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

// Shares of the attainable hits, in percent. The analysis reports the cache size that each share
// needs. Attainable are the hits of a cache without a size limit.
inline constexpr int32_t kWantedPercents[] = {50, 80, 95};

struct BlockSizeAnalysis {
  int64_t block_tokens = 0;
  ReuseCurve curve;
  std::vector<WorkingSet::Peak> peaks;  // peaks[w]: maximum of the working set for window w
  // Same meaning as num_sharing and num_used_once in Sharing.
  int64_t num_sharing_requests = 0, num_blocks_used_once = 0;
};

struct Analysis {
  std::string name;  // name of the log of prompts
  std::string form;  // form of the prompts in the log: "hash_ids" or "token_ids"
  int64_t output_tokens = 0;
  double seconds = 0;  // seconds from the first to the last request; 0 without timestamps
  // One analysis for each block size, ascending by size; not empty.
  std::vector<BlockSizeAnalysis> sizes;
  size_t detail = 0;  // index in `sizes` of the block size that sharing and beginnings use
  Sharing sharing;
  std::vector<std::string> beginnings;  // beginnings[i]: first characters or ids of sharing.top[i]
  WorkingSet working_set;
  std::optional<int64_t> bytes_per_token;  // size of the keys and values of one token, in bytes
  std::vector<std::string> notes;          // contradictions in the data of the log, as sentences

  const BlockSizeAnalysis& detailed() const { return sizes[detail]; }
};

struct AnalysisOptions {
  // Window of the working set in seconds; absent: round fractions of the duration.
  std::optional<double> window;
  std::optional<int64_t> bytes_per_token;  // size of the keys and values of one token, in bytes
  size_t num_top_prefixes = 10;
  // Converts the first token ids of a shared prefix to text. If `decode` is empty, the analysis
  // shows the ids.
  std::function<std::string(std::span<const TokenId>)> decode;
};

// Analyses `input`. Returns FAILED_PRECONDITION if `options.window` is set and the log has no
// timestamps.
absl::StatusOr<Analysis> Analyze(const AnalysisInput& input, const AnalysisOptions& options);

// Returns the size of the keys and values of `num_tokens` tokens in GiB, or nothing if the size of
// one token (bytes_per_token) is not known.
std::optional<double> GibOf(const Analysis& analysis, int64_t num_tokens);

// Returns the length of window number `window` of the working set as text, such as "5 min" or
// "1,000 requests".
std::string WindowText(const WorkingSet& set, size_t window);

// One cache size in the curve of hit ratio against cache size.
struct CurveCapacity {
  int64_t num_blocks = 0;  // number of blocks that the cache holds
  // Percentage of the log's distinct blocks; 0 for a size that only plots show.
  int32_t percent = 0;
};
// Returns the cache sizes, in ascending order, for which the hit ratio is shown: fixed percentages
// of the number of distinct blocks for a table, and up to `num_points` more sizes for a plot. The
// sizes for the plot are closer to each other for small caches.
std::vector<CurveCapacity> CurveCapacities(const ReuseCurve& curve, int32_t num_points);

}  // namespace incipit
