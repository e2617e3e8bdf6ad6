// Draws line charts and bar charts with axes as SVG files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/analysis/svg.h"

namespace incipit {

// One row of tick labels along an axis of a chart.
struct ChartScale {
  std::string unit;  // unit, written to the right of the tick labels; empty: no unit is written
  std::function<std::string(double)> text;  // returns the tick label for a number
};

struct ChartSeries {
  std::string name;
  std::vector<SvgPoint> points;  // points of the line, in ascending order of x
  bool dashed = false;
};

// A point in a line chart, with a text beside the point.
struct ChartMark {
  SvgPoint at;
  std::string text;
};

struct LineChart {
  std::string title, subtitle, x_label, y_label;
  std::vector<ChartScale> x_scales;  // rows of tick labels below the x axis, one row for each unit
  std::function<std::string(double)> y_text;
  bool is_x_logarithmic = false;  // if true, x must be above 0 for all points
  double y_max = 0;               // largest value of the y axis; 0: the largest y of all points
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks;
};

struct BarChart {
  struct Bar {
    std::string name;  // text below the bar
    double value = 0;
    std::string text;  // text above the bar
  };
  std::string title, subtitle, x_label, y_label;
  std::function<std::string(double)> y_text;
  std::vector<Bar> bars;
};

// Returns the content of an SVG file with the line chart.
std::string DrawLineChart(const LineChart& chart);
// Returns the content of an SVG file with the bar chart.
std::string DrawBarChart(const BarChart& chart);

// Returns about `count` + 1 round numbers with equal distances for an axis from 0 to `max`, such as
// 0, 20, 40, 60. The last number is at least `max`.
std::vector<double> RoundTicks(double max, int32_t count);
// Returns the powers of ten from `min` to `max` for a logarithmic axis. If there are fewer than
// three powers, also returns 2 and 5 times each power.
std::vector<double> LogarithmicTicks(double min, double max);

}  // namespace incipit
