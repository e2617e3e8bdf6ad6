#include "cli/analysis/analyze_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "cli/analysis/analyze_text.h"

namespace incipit {
namespace {

constexpr size_t kShownCharactersMax = 40;
constexpr size_t kShownIdsMax = 3;
constexpr int64_t kDecodedTokensMax = 24;

// Returns the contents (token ids or hash ids) of all `blocks` in one vector. `Id` is the type of
// these ids.
template <typename Id>
std::vector<Id> IdsOf(const BlockLog& log, std::span<const BlockNode> blocks) {
  std::vector<Id> ids;
  for (const BlockNode node : blocks) {
    const auto content = log.content(node);
    const size_t begin = ids.size();
    ids.resize(begin + content.size() / sizeof(Id));
    std::memcpy(&ids[begin], content.data(), content.size());
  }
  return ids;
}

template <typename Id>
std::string FirstIds(std::span<const Id> ids) {
  const bool is_cut = ids.size() > kShownIdsMax;
  return fmt::format("{}{}", fmt::join(ids.first(std::min(ids.size(), kShownIdsMax)), ", "),
                     is_cut ? ", ..." : "");
}

std::string FirstCharacters(const std::string& text) {
  std::string shown = VisibleText(text);
  size_t num_characters = 0;
  for (size_t i = 0; i < shown.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(shown[i]) & 0xC0) != 0x80;
    if (begins && num_characters++ == kShownCharactersMax) return shown.substr(0, i) + "...";
  }
  return shown;
}

std::string BeginningOf(const AnalysisInput& input, const BlockView& view,
                        const SharedPrefix& prefix, const AnalysisOptions& options) {
  const bool is_hashed = input.form == TraceForm::kHashIds;
  const int64_t num_blocks =
      is_hashed ? int64_t{kShownIdsMax} + 1 : kDecodedTokensMax / view.block_tokens() + 1;
  const auto blocks = FirstBlocks(view, prefix, num_blocks);
  if (is_hashed) return FirstIds<uint64_t>(IdsOf<uint64_t>(*input.log, blocks));
  const auto ids = IdsOf<TokenId>(*input.log, blocks);
  return options.decode ? FirstCharacters(options.decode(ids)) : FirstIds<TokenId>(ids);
}

}  // namespace

absl::StatusOr<Analysis> Analyze(const AnalysisInput& input, const AnalysisOptions& options) {
  const BlockLog& log = *input.log;
  WorkingSetOptions windows = DefaultWindows(log);
  if (options.window) {
    if (!windows.is_timed) {
      return FailedPrecondition(
          "{}: --window needs different timestamps, but the log has no timestamps or only equal "
          "timestamps",
          input.name);
    }
    windows.windows = {*options.window};
  }
  Analysis analysis;
  analysis.name = input.name;
  analysis.form = input.form == TraceForm::kHashIds ? "hash_ids" : "token_ids";
  analysis.output_tokens = input.output_tokens;
  analysis.seconds = log.request(log.num_requests() - 1).time;
  analysis.bytes_per_token = options.bytes_per_token;
  analysis.notes = input.notes;
  analysis.detail = input.detail;
  for (size_t i = 0; i < input.groups.size(); ++i) {
    const BlockView view(log, input.groups[i]);
    Reuse reuse = MeasureReuse(view, windows);
    Sharing sharing = MeasureSharing(view, options.num_top_prefixes);
    analysis.sizes.push_back({view.block_tokens(), std::move(reuse.curve), reuse.working_set.peaks,
                              sharing.num_sharing, sharing.num_used_once});
    if (i != input.detail) continue;
    analysis.working_set = std::move(reuse.working_set);
    analysis.sharing = std::move(sharing);
    for (const SharedPrefix& prefix : analysis.sharing.top) {
      analysis.beginnings.push_back(BeginningOf(input, view, prefix, options));
    }
  }
  return analysis;
}

std::optional<double> GibOf(const Analysis& analysis, int64_t num_tokens) {
  if (!analysis.bytes_per_token) return std::nullopt;
  return static_cast<double>(num_tokens) * static_cast<double>(*analysis.bytes_per_token) /
         static_cast<double>(int64_t{1} << 30);
}

std::string WindowText(const WorkingSet& set, size_t window) {
  const double length = set.windows[window];
  if (set.is_timed) return TimeText(length);
  const auto count = static_cast<int64_t>(length);
  return fmt::format("{} {}", Thousands(count), count == 1 ? "request" : "requests");
}

std::vector<CurveCapacity> CurveCapacities(const ReuseCurve& curve, int32_t num_points) {
  const int64_t num_distinct = curve.num_distinct();
  if (num_distinct == 0) return {};
  std::vector<CurveCapacity> capacities;
  for (const int32_t percent : {1, 2, 5, 10, 20, 30, 40, 50, 60, 80, 100}) {
    capacities.push_back({std::max<int64_t>(1, Share(percent, num_distinct)), percent});
  }
  // Add `num_points` cache sizes for plots, up to `last` blocks, in equal steps on a logarithmic
  // axis.
  const double last = static_cast<double>(num_distinct);
  const double needed = static_cast<double>(curve.BlocksFor(kWantedPercents[0]));
  const double first = std::max(1.0, std::min(last / 1000, needed / 4));
  for (int32_t i = 0; i < num_points; ++i) {
    const double num_blocks = first * std::pow(last / first, 1.0 * i / num_points);
    capacities.push_back({std::llround(num_blocks), 0});
  }
  // If two entries have the same cache size, std::unique() keeps only the first entry. Put the
  // entry with percent > 0 first, because tables show only entries with percent > 0.
  std::ranges::sort(capacities, [](const CurveCapacity& a, const CurveCapacity& b) {
    return a.num_blocks != b.num_blocks ? a.num_blocks < b.num_blocks : a.percent > b.percent;
  });
  const auto are_equal = [](const CurveCapacity& a, const CurveCapacity& b) {
    return a.num_blocks == b.num_blocks;
  };
  capacities.erase(std::unique(capacities.begin(), capacities.end(), are_equal), capacities.end());
  return capacities;
}

}  // namespace incipit
