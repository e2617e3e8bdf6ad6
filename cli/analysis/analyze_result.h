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

// The analysis reports the cache sizes that reach 50 %, 80 % and 95 % of the hits of a cache
// without a size limit.
inline constexpr int32_t kWantedPercents[] = {50, 80, 95};

struct BlockSizeAnalysis {
  int64_t block_tokens = 0;
  ReuseCurve curve;
  // peaks[w]: the largest number of distinct blocks that were used within a time window of the
  // length Analysis::working_set.windows[w].
  std::vector<WorkingSet::Peak> peaks;
  // num_sharing_requests: number of requests whose prompt has its first block in common with an
  // earlier prompt. num_blocks_used_once: number of distinct blocks that only one request has.
  int64_t num_sharing_requests = 0, num_blocks_used_once = 0;
};

struct Analysis {
  std::string name;  // name of the log of prompts
  std::string form;  // form of the prompts in the log: "hash_ids" or "token_ids"
  int64_t output_tokens = 0;
  double seconds = 0;  // time from the first to the last request, in seconds; 0: no timestamps
  // One analysis for each block size, in ascending order of the block size.
  std::vector<BlockSizeAnalysis> sizes;
  // Tables and plots for only one block size use the analysis sizes[detail].
  size_t detail = 0;
  Sharing sharing;
  // beginnings[i]: start of the shared prefix sharing.top[i], as text or ids.
  std::vector<std::string> beginnings;
  WorkingSet working_set;
  std::optional<int64_t> bytes_per_token;  // size of the keys and values of one token, in bytes
  std::vector<std::string> notes;          // sentences about contradictions in the log

  const BlockSizeAnalysis& detailed() const { return sizes[detail]; }
};

struct AnalysisOptions {
  // Length in seconds of the time window in which distinct blocks are counted; absent: the lengths
  // of DefaultWindows().
  std::optional<double> window;
  std::optional<int64_t> bytes_per_token;  // size of the keys and values of one token, in bytes
  size_t num_top_prefixes = 10;
  // Converts the first token ids of a shared prefix to text. If `decode` is empty, the analysis
  // shows the ids.
  std::function<std::string(std::span<const TokenId>)> decode;
};

// Analyses the log `input`. Returns FAILED_PRECONDITION if `options.window` is set and the log has
// no timestamps.
absl::StatusOr<Analysis> Analyze(const AnalysisInput& input, const AnalysisOptions& options);

// Returns the size of the keys and values of `num_tokens` tokens in GiB, or nullopt if
// analysis.bytes_per_token is absent.
std::optional<double> GibOf(const Analysis& analysis, int64_t num_tokens);

// Returns the length set.windows[window] as text, such as "5 min" or "1,000 requests".
std::string WindowText(const WorkingSet& set, size_t window);

// A cache size for which tables or plots show the hit ratio.
struct CurveCapacity {
  int64_t num_blocks = 0;  // cache size in blocks
  // `num_blocks` in percent of the distinct blocks of the log; 0: only plots show this cache size.
  int32_t percent = 0;
};
// Returns the cache sizes for which tables or plots show the hit ratio, in ascending order. Plots
// show up to `num_points` more cache sizes than tables.
std::vector<CurveCapacity> CurveCapacities(const ReuseCurve& curve, int32_t num_points);

}  // namespace incipit
