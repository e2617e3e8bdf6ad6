#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/analysis/analyze_output.h"
#include "cli/analysis/analyze_text.h"
#include "cli/analysis/svg_chart.h"

namespace incipit {
namespace {

constexpr int32_t kPlotPoints = 160;

struct TimeUnit {
  std::string_view name;
  double seconds = 1;
};

TimeUnit UnitFor(double seconds) {
  for (const TimeUnit unit :
       {TimeUnit{"d", 86400}, TimeUnit{"h", 3600}, TimeUnit{"min", 60}, TimeUnit{"s", 1}}) {
    if (seconds >= 2 * unit.seconds) return unit;
  }
  return {"ms", 1e-3};
}

// Returns the name of the log file without its folders. A name of more than 48 bytes is cut to 48
// bytes and "...".
std::string ShortName(const Analysis& analysis) {
  constexpr size_t kCharactersMax = 48;
  const std::string name = analysis.name.substr(analysis.name.find_last_of('/') + 1);
  return name.size() <= kCharactersMax ? name : name.substr(0, kCharactersMax) + "...";
}

std::string PlainNumber(double value) { return fmt::format("{:.6g}", value); }
std::string WholePercent(double value) { return fmt::format("{:.3g} %", value); }

// Returns two or three rows of tick labels for an axis of cache sizes: tokens, blocks and, if the
// bytes per token are known, GiB.
std::vector<ChartScale> SizeScales(const Analysis& analysis) {
  const auto block_tokens = static_cast<double>(analysis.detailed().block_tokens);
  std::vector<ChartScale> scales = {
      {"tokens", ShortNumber},
      {fmt::format("blocks of {}", analysis.detailed().block_tokens),
       [block_tokens](double tokens) { return ShortNumber(tokens / block_tokens); }}};
  if (analysis.bytes_per_token) {
    const double gib = *GibOf(analysis, 1);
    scales.push_back({"GiB", [gib](double tokens) { return ShortNumber(gib * tokens); }});
  }
  return scales;
}

Plot HitRatioPlot(const Analysis& analysis) {
  LineChart chart;
  chart.title = "Hit ratio by cache size, with LRU eviction";
  const BlockSizeAnalysis& size = analysis.detailed();
  const double attainable = size.curve.TokenHitRatio(size.curve.attainable());
  chart.subtitle = fmt::format(
      "{}: {} requests, blocks of {} tokens; a cache without a size limit has the hit ratio {}",
      ShortName(analysis), Thousands(analysis.sharing.num_requests), size.block_tokens,
      PercentText(attainable));
  chart.x_label = "cache size (logarithmic)";
  chart.y_label = "prompt tokens found in the cache (%)";
  chart.x_scales = SizeScales(analysis);
  chart.y_text = WholePercent;
  chart.is_x_logarithmic = true;
  for (const BlockSizeAnalysis& each : analysis.sizes) {
    ChartSeries series = {fmt::format("blocks of {}", each.block_tokens), {}, false};
    for (const auto& [num_blocks, percent] : CurveCapacities(each.curve, kPlotPoints)) {
      const double hits = 100 * each.curve.TokenHitRatio(each.curve.HitsWith(num_blocks));
      series.points.push_back({static_cast<double>(num_blocks * each.block_tokens), hits});
    }
    chart.series.push_back(std::move(series));
  }
  if (size.curve.attainable().blocks > 0) {
    for (const int32_t percent : kWantedPercents) {
      const int64_t num_blocks = size.curve.BlocksFor(percent);
      const double hits = 100 * size.curve.TokenHitRatio(size.curve.HitsWith(num_blocks));
      chart.marks.push_back(
          {{static_cast<double>(num_blocks * size.block_tokens), hits},
           fmt::format("{} % of the attainable: {} blocks", percent, Thousands(num_blocks))});
    }
  }
  return {"hit_ratio.svg", DrawLineChart(chart)};
}

Plot WorkingSetPlot(const Analysis& analysis) {
  const WorkingSet& set = analysis.working_set;
  const TimeUnit unit = set.is_timed ? UnitFor(analysis.seconds) : TimeUnit{"requests", 1};
  LineChart chart;
  chart.title = "Working set against time";
  chart.subtitle = fmt::format(
      "{}: distinct blocks of {} tokens used within a window (a time or a number of requests)",
      ShortName(analysis), analysis.detailed().block_tokens);
  chart.x_label = set.is_timed
                      ? fmt::format("time since the first request of the log ({})", unit.name)
                      : std::string("requests since the start of the log");
  chart.y_label = "distinct blocks";
  chart.x_scales = {{"", PlainNumber}};
  chart.y_text = ShortNumber;
  const auto series = [&](std::string name, const auto& value_of) {
    ChartSeries made = {std::move(name), {{0, 0}}, false};
    for (const WorkingSet::Sample& sample : set.samples) {
      made.points.push_back({sample.at / unit.seconds, static_cast<double>(value_of(sample))});
    }
    return made;
  };
  for (size_t w = 0; w < set.windows.size(); ++w) {
    chart.series.push_back(
        series("last " + WindowText(set, w), [w](const auto& sample) { return sample.blocks[w]; }));
  }
  chart.series.push_back(
      series("since the beginning", [](const auto& sample) { return sample.num_distinct; }));
  chart.series.back().dashed = true;
  return {"working_set.svg", DrawLineChart(chart)};
}

Plot SharingPlot(const Analysis& analysis) {
  const Sharing& sharing = analysis.sharing;
  const int64_t block_tokens = analysis.detailed().block_tokens;
  BarChart chart;
  chart.title = "Requests by length of the prefix shared with an earlier request";
  chart.subtitle = fmt::format("{}: {} of {} requests share at least one block of {} tokens",
                               ShortName(analysis), Thousands(sharing.num_sharing),
                               Thousands(sharing.num_requests), block_tokens);
  chart.x_label =
      "length of the shared prefix in tokens (the label of a bar is the smallest length)";
  chart.y_label = "requests";
  chart.y_text = ShortNumber;
  for (const Sharing::Bin& bin : sharing.bins) {
    chart.bars.push_back({bin.blocks_from == 0
                              ? std::string("none")
                              : ShortNumber(static_cast<double>(bin.blocks_from * block_tokens)),
                          static_cast<double>(bin.num_requests),
                          PercentText(RatioOf(bin.num_requests, sharing.num_requests))});
  }
  return {"shared_prefix.svg", DrawBarChart(chart)};
}

}  // namespace

std::vector<Plot> DrawPlots(const Analysis& analysis) {
  return {HitRatioPlot(analysis), WorkingSetPlot(analysis), SharingPlot(analysis)};
}

}  // namespace incipit
