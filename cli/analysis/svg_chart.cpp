#include "cli/analysis/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

using Anchor = SvgText::Anchor;

constexpr int32_t kWidth = 900, kPlotHeight = 330;
constexpr double kPlotLeft = 84, kPlotTop = 76, kBarsRight = 30, kLegendWidth = 190,
                 kRowHeight = 18;
constexpr std::string_view kInk = "#222222", kFaint = "#666666", kGrid = "#e4e4e4";
// Colours of the lines of a chart. People with colour blindness can distinguish these colours.
constexpr std::string_view kColors[] = {"#0072b2", "#d55e00", "#009e73",
                                        "#cc79a7", "#e69f00", "#56b4e9"};

std::string_view ColorOf(size_t index) { return kColors[index % std::size(kColors)]; }

// The edges of the plot area of a chart, in pixels from the upper left corner of the drawing.
struct Frame {
  double left = kPlotLeft, right = 0, top = kPlotTop, bottom = kPlotTop + kPlotHeight;
};

struct Range {
  double min = 0, max = 1;
  bool is_logarithmic = false;

  // Returns the relative position of `value` in the range of the axis: 0 at `min`, 1 at `max`.
  double Share(double value) const {
    if (!is_logarithmic) return (value - min) / (max - min);
    return std::log(value / min) / std::log(max / min);
  }
};

struct Titles {
  std::string_view title, subtitle, x_label, y_label;
};

// Creates a drawing with the title of the chart and the titles of the axes. `num_rows` is the
// number of rows of tick labels below the x axis.
SvgDocument Begin(const Frame& frame, const Titles& titles, size_t num_rows) {
  const double x_label_y = frame.bottom + 14 + kRowHeight * static_cast<double>(num_rows) + 14;
  SvgDocument svg(kWidth, static_cast<int32_t>(x_label_y + 20), titles.title, titles.subtitle);
  svg.Text({frame.left, 30}, titles.title, {.size = 17, .bold = true, .color = kInk});
  svg.Text({frame.left, 50}, titles.subtitle, {.size = 12, .color = kFaint});
  svg.Text({(frame.left + frame.right) / 2, x_label_y}, titles.x_label,
           {.anchor = Anchor::kMiddle, .size = 13, .color = kInk});
  svg.Text({22, (frame.top + frame.bottom) / 2}, titles.y_label,
           {.anchor = Anchor::kMiddle, .size = 13, .color = kInk, .degrees = -90});
  return svg;
}

void DrawYAxis(SvgDocument& svg, const Frame& frame, std::span<const double> ticks,
               const std::function<std::string(double)>& text) {
  for (const double tick : ticks) {
    const double y = frame.bottom - (frame.bottom - frame.top) * tick / ticks.back();
    svg.Line({frame.left, y}, {frame.right, y}, {.color = tick == 0 ? kInk : kGrid});
    svg.Text({frame.left - 8, y + 4}, text(tick),
             {.anchor = Anchor::kEnd, .size = 12, .color = kInk});
  }
}

void DrawXAxis(SvgDocument& svg, const Frame& frame, const Range& range,
               const std::vector<ChartScale>& scales) {
  const auto ticks =
      range.is_logarithmic ? LogarithmicTicks(range.min, range.max) : RoundTicks(range.max, 8);
  for (const double tick : ticks) {
    if (tick < range.min || tick > range.max * (1 + 1e-9)) continue;
    const double x = frame.left + (frame.right - frame.left) * range.Share(tick);
    svg.Line({x, frame.top}, {x, frame.bottom}, {.color = kGrid});
    svg.Line({x, frame.bottom}, {x, frame.bottom + 5}, {.color = kInk});
    for (size_t row = 0; row < scales.size(); ++row) {
      svg.Text({x, frame.bottom + kRowHeight * static_cast<double>(row + 1)},
               scales[row].text(tick), {.anchor = Anchor::kMiddle, .size = 12, .color = kInk});
    }
  }
  for (size_t row = 0; row < scales.size(); ++row) {
    if (scales[row].unit.empty()) continue;
    svg.Text({frame.right + 30, frame.bottom + kRowHeight * static_cast<double>(row + 1)},
             scales[row].unit, {.size = 12, .color = kFaint});
  }
}

void DrawLegend(SvgDocument& svg, const Frame& frame, std::span<const ChartSeries> series) {
  for (size_t i = 0; i < series.size(); ++i) {
    const double y = frame.top + 10 + 22 * static_cast<double>(i);
    svg.Line({frame.right + 18, y}, {frame.right + 42, y},
             {.color = ColorOf(i), .width = 2.5, .dashes = series[i].dashed ? "5 4" : ""});
    svg.Text({frame.right + 50, y + 4}, series[i].name, {.size = 12, .color = kInk});
  }
}

Range XRange(const LineChart& chart) {
  Range range = {.min = 0, .max = 0, .is_logarithmic = chart.is_x_logarithmic};
  bool is_first = true;
  for (const ChartSeries& series : chart.series) {
    for (const SvgPoint& point : series.points) {
      range.min = is_first ? point.x : std::min(range.min, point.x);
      range.max = is_first ? point.x : std::max(range.max, point.x);
      is_first = false;
    }
  }
  if (range.is_logarithmic) {
    if (is_first) range.min = 1;
    INCIPIT_CHECK(range.min > 0);
    if (range.max <= range.min) range.max = 10 * range.min;
  } else {
    range.min = std::min(range.min, 0.0);
    if (range.max <= range.min) range.max = range.min + 1;
  }
  return range;
}

double YMax(const LineChart& chart) {
  double y_max = chart.y_max;
  if (y_max > 0) return y_max;
  for (const ChartSeries& series : chart.series) {
    for (const SvgPoint& point : series.points) y_max = std::max(y_max, point.y);
  }
  return y_max;
}

}  // namespace

std::vector<double> RoundTicks(double max, int32_t count) {
  if (!(max > 0)) max = 1;
  const double raw = max / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double scaled = raw / power;
  const double step = power * (scaled <= 1 ? 1 : scaled <= 2 ? 2 : scaled <= 5 ? 5 : 10);
  const auto num_steps = static_cast<int32_t>(std::ceil(max / step * (1 - 1e-9)));
  std::vector<double> ticks;
  for (int32_t i = 0; i <= num_steps; ++i) ticks.push_back(i * step);
  return ticks;
}

std::vector<double> LogarithmicTicks(double min, double max) {
  INCIPIT_CHECK(min > 0 && max >= min);
  const auto first = static_cast<int32_t>(std::floor(std::log10(min)));
  const auto last = static_cast<int32_t>(std::ceil(std::log10(max)));
  std::vector<double> powers, all;
  const auto add = [&](double tick, std::vector<double>& ticks) {
    if (tick >= min * (1 - 1e-9) && tick <= max * (1 + 1e-9)) ticks.push_back(tick);
  };
  for (int32_t exponent = first; exponent <= last; ++exponent) {
    const double power = std::pow(10, exponent);
    add(power, powers);
    for (const double factor : {1, 2, 5}) add(factor * power, all);
  }
  return powers.size() >= 3 ? powers : all;
}

std::string DrawLineChart(const LineChart& chart) {
  INCIPIT_CHECK(!chart.x_scales.empty());
  Frame frame;
  frame.right = kWidth - kLegendWidth;
  const Range x_range = XRange(chart);
  const auto y_ticks = RoundTicks(YMax(chart), 5);
  SvgDocument svg = Begin(frame, {chart.title, chart.subtitle, chart.x_label, chart.y_label},
                          chart.x_scales.size());
  DrawXAxis(svg, frame, x_range, chart.x_scales);
  DrawYAxis(svg, frame, y_ticks, chart.y_text);
  const auto place = [&](const SvgPoint& point) -> SvgPoint {
    return {frame.left + (frame.right - frame.left) * x_range.Share(point.x),
            frame.bottom - (frame.bottom - frame.top) * point.y / y_ticks.back()};
  };
  for (size_t i = 0; i < chart.series.size(); ++i) {
    std::vector<SvgPoint> points;
    for (const SvgPoint& point : chart.series[i].points) points.push_back(place(point));
    svg.Polyline(points,
                 {.color = ColorOf(i), .width = 2, .dashes = chart.series[i].dashed ? "5 4" : ""});
  }
  // Put the text of a mark above and to the left of its point if the point is in the right half of
  // the chart. Otherwise, put the text below and to the right of the point. So a rising curve does
  // not cross the text.
  for (const ChartMark& mark : chart.marks) {
    const SvgPoint at = place(mark.at);
    const bool is_right = at.x > (frame.left + frame.right) / 2;
    svg.Dot(at, 4.5, kInk);
    svg.Text({at.x + (is_right ? -9 : 9), at.y + (is_right ? -7 : 15)}, mark.text,
             {.anchor = is_right ? Anchor::kEnd : Anchor::kStart, .size = 12, .color = kInk});
  }
  DrawLegend(svg, frame, chart.series);
  return std::move(svg).Finish();
}

std::string DrawBarChart(const BarChart& chart) {
  Frame frame;
  frame.right = kWidth - kBarsRight;
  double y_max = 0;
  for (const BarChart::Bar& bar : chart.bars) y_max = std::max(y_max, bar.value);
  const auto y_ticks = RoundTicks(y_max, 5);
  SvgDocument svg = Begin(frame, {chart.title, chart.subtitle, chart.x_label, chart.y_label}, 1);
  DrawYAxis(svg, frame, y_ticks, chart.y_text);
  const double slot =
      (frame.right - frame.left) / static_cast<double>(std::max<size_t>(chart.bars.size(), 1));
  const double width = std::min(0.8 * slot, 90.0);
  for (size_t i = 0; i < chart.bars.size(); ++i) {
    const BarChart::Bar& bar = chart.bars[i];
    const double center = frame.left + slot * (static_cast<double>(i) + 0.5);
    const double height = (frame.bottom - frame.top) * bar.value / y_ticks.back();
    svg.Rectangle({center - width / 2, frame.bottom - height}, width, height, kColors[0]);
    svg.Text({center, frame.bottom - height - 5}, bar.text,
             {.anchor = Anchor::kMiddle, .size = 11, .color = kInk});
    svg.Text({center, frame.bottom + kRowHeight}, bar.name,
             {.anchor = Anchor::kMiddle, .size = 12, .color = kInk});
  }
  return std::move(svg).Finish();
}

}  // namespace incipit
