#include <cmath>

#include "cli/analysis/analyze_output.h"

namespace incipit {
namespace {

using nlohmann::ordered_json;

constexpr int32_t kJsonPoints = 100;

// Rounds `value` to 6 decimal places.
double Rounded(double value) { return std::round(value * 1e6) / 1e6; }

// Returns the hit ratios of a cache of `num_blocks` blocks as a JSON object.
ordered_json PointJson(const Analysis& analysis, const BlockSizeAnalysis& size,
                       int64_t num_blocks) {
  const int64_t num_tokens = num_blocks * size.block_tokens;
  const ReuseCurve::Hits& hits = size.curve.HitsWith(num_blocks);
  ordered_json json = {{"blocks", num_blocks},
                       {"tokens", num_tokens},
                       {"block_hit_ratio", Rounded(size.curve.BlockHitRatio(hits))},
                       {"token_hit_ratio", Rounded(size.curve.TokenHitRatio(hits))}};
  if (const auto gib = GibOf(analysis, num_tokens)) json["gib"] = Rounded(*gib);
  return json;
}

ordered_json SizeJson(const Analysis& analysis, const BlockSizeAnalysis& size) {
  const ReuseCurve& curve = size.curve;
  const ReuseCurve::Hits& attainable = curve.attainable();
  ordered_json needed = ordered_json::array();
  for (const int32_t percent : kWantedPercents) {
    ordered_json point = {{"share_of_attainable", percent / 100.0}};
    point.update(PointJson(analysis, size, curve.BlocksFor(percent)));
    needed.push_back(std::move(point));
  }
  ordered_json points = ordered_json::array();
  for (const auto& [num_blocks, percent] : CurveCapacities(curve, kJsonPoints)) {
    points.push_back(PointJson(analysis, size, num_blocks));
  }
  ordered_json peaks = ordered_json::array();
  for (const WorkingSet::Peak& peak : size.peaks) peaks.push_back(peak.blocks);
  return {{"block_size", size.block_tokens},
          {"block_references", curve.all().blocks},
          {"distinct_blocks", curve.num_distinct()},
          {"distinct_blocks_used_once", size.num_blocks_used_once},
          {"sharing_requests", size.num_sharing_requests},
          {"working_set_peaks", std::move(peaks)},
          {"attainable",
           {{"blocks", attainable.blocks},
            {"tokens", attainable.tokens},
            {"block_hit_ratio", Rounded(curve.BlockHitRatio(attainable))},
            {"token_hit_ratio", Rounded(curve.TokenHitRatio(attainable))}}},
          {"needed", std::move(needed)},
          {"curve", std::move(points)}};
}

ordered_json LengthsJson(const Sharing::Lengths& lengths) {
  return {{"mean", Rounded(lengths.mean)},
          {"p50", lengths.p50},
          {"p90", lengths.p90},
          {"p99", lengths.p99},
          {"max", lengths.max}};
}

ordered_json SharingJson(const Analysis& analysis) {
  const Sharing& sharing = analysis.sharing;
  const int64_t block_tokens = analysis.detailed().block_tokens;
  ordered_json histogram = ordered_json::array();
  for (const Sharing::Bin& bin : sharing.bins) {
    histogram.push_back({{"blocks_from", bin.blocks_from},
                         {"blocks_to", bin.blocks_to},
                         {"tokens_from", bin.blocks_from * block_tokens},
                         {"requests", bin.num_requests}});
  }
  ordered_json prefixes = ordered_json::array();
  for (size_t i = 0; i < sharing.top.size(); ++i) {
    const SharedPrefix& prefix = sharing.top[i];
    prefixes.push_back({{"requests", prefix.num_requests},
                        {"prefix_tokens", prefix.num_blocks * block_tokens},
                        {"own_tokens", prefix.num_own_blocks * block_tokens},
                        {"saved_tokens", prefix.num_saved * block_tokens},
                        {"first_line", prefix.first_line},
                        {"begins_with", analysis.beginnings[i]}});
  }
  return {{"block_size", block_tokens},
          {"requests", sharing.num_sharing},
          {"shared_tokens", LengthsJson(sharing.shared_tokens)},
          {"distinct_blocks_used_once", sharing.num_used_once},
          {"histogram", std::move(histogram)},
          {"shared_prefixes", sharing.num_prefixes},
          {"top_prefixes", std::move(prefixes)}};
}

ordered_json WorkingSetJson(const Analysis& analysis) {
  const WorkingSet& set = analysis.working_set;
  ordered_json windows = ordered_json::array();
  for (size_t w = 0; w < set.windows.size(); ++w) {
    windows.push_back({{"length", set.windows[w]},
                       {"peak_blocks", set.peaks[w].blocks},
                       {"peak_at", Rounded(set.peaks[w].at)}});
  }
  ordered_json samples = ordered_json::array();
  for (const WorkingSet::Sample& sample : set.samples) {
    samples.push_back({{"at", Rounded(sample.at)},
                       {"requests", sample.num_requests},
                       {"blocks", sample.blocks},
                       {"distinct_blocks", sample.num_distinct}});
  }
  return {{"block_size", analysis.detailed().block_tokens},
          {"unit", set.is_timed ? "s" : "requests"},
          {"windows", std::move(windows)},
          {"samples", std::move(samples)}};
}

}  // namespace

ordered_json ToJson(const Analysis& analysis) {
  ordered_json sizes = ordered_json::array();
  for (const BlockSizeAnalysis& size : analysis.sizes) sizes.push_back(SizeJson(analysis, size));
  return {{"log", analysis.name},
          {"form", analysis.form},
          {"requests", analysis.sharing.num_requests},
          {"duration_s", Rounded(analysis.seconds)},
          {"prompt_tokens", analysis.sharing.input_tokens},
          {"prompt_lengths", LengthsJson(analysis.sharing.prompt_tokens)},
          {"output_tokens", analysis.output_tokens},
          {"bytes_per_token",
           analysis.bytes_per_token ? ordered_json(*analysis.bytes_per_token) : ordered_json()},
          {"block_sizes", std::move(sizes)},
          {"sharing", SharingJson(analysis)},
          {"working_set", WorkingSetJson(analysis)},
          {"notes", analysis.notes}};
}

}  // namespace incipit
