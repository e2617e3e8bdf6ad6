// All that an analysis found, for its three forms: tables, JSON and plots.
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

// Shares of the attainable hits, in percent, that the needed cache sizes are stated for.
inline constexpr int32_t kWantedPercents[] = {50, 80, 95};

struct BlockSizeAnalysis {
  int64_t block_tokens = 0;
  ReuseCurve curve;
  std::vector<WorkingSet::Peak> peaks;                         // [window] of Analysis::working_set
  int64_t num_sharing_requests = 0, num_blocks_used_once = 0;  // as in Sharing
};

struct Analysis {
  std::string name;  // of the log
  std::string form;  // "hash_ids" or "token_ids"
  int64_t output_tokens = 0;
  double seconds = 0;                    // from the first request to the last; 0 without timestamps
  std::vector<BlockSizeAnalysis> sizes;  // ascending, at least one
  size_t detail = 0;                     // the size of all that follows
  Sharing sharing;
  std::vector<std::string> beginnings;  // [sharing.top]: what each stretch begins with
  WorkingSet working_set;
  std::optional<int64_t> bytes_per_token;  // of keys and values
  std::vector<std::string> notes;

  const BlockSizeAnalysis& detailed() const { return sizes[detail]; }
};

struct AnalysisOptions {
  std::optional<double> window;            // seconds; else round parts of the log
  std::optional<int64_t> bytes_per_token;  // of keys and values
  size_t num_top_prefixes = 10;
  // Shows what shared prefixes begin with; where it is empty their ids are shown.
  std::function<std::string(std::span<const TokenId>)> decode;
};

// FAILED_PRECONDITION if a window is wanted and the log has no times.
absl::StatusOr<Analysis> Analyze(const AnalysisInput& input, const AnalysisOptions& options);

// In GiB; nothing where bytes_per_token is not known.
std::optional<double> GibOf(const Analysis& analysis, int64_t num_tokens);

// The length of a window: "5 min", "1,000 requests".
std::string WindowText(const WorkingSet& set, size_t window);

// Cache sizes in blocks, ascending, at which a curve is worth looking at: the usual shares of its
// distinct blocks for a table, and up to `num_points` more for a plot, closer for small caches.
struct CurveCapacity {
  int64_t num_blocks = 0;
  int32_t percent = 0;  // of the distinct blocks; 0 for a point of the plot alone
};
std::vector<CurveCapacity> CurveCapacities(const ReuseCurve& curve, int32_t num_points);

}  // namespace incipit
