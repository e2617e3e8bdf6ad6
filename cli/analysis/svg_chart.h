// Draws line charts and bar charts with axes as SVG files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/analysis/svg.h"

namespace incipit {

// The labels of a chart axis: their unit, and the function that formats the value of a label.
struct ChartScale {
  std::string unit;  // unit, shown to the right of the labels; empty: x_label names the unit
  std::function<std::string(double)> text;  // returns the label for a value
};

struct ChartSeries {
  std::string name;
  std::vector<SvgPoint> points;  // points of the line in the units of the axes, in the order of x
  bool dashed = false;
};

// A labelled point in a line chart.
struct ChartMark {
  SvgPoint at;
  std::string text;
};

struct LineChart {
  std::string title, subtitle, x_label, y_label;
  std::vector<ChartScale> x_scales;  // one row of labels for each unit of x; not empty
  std::function<std::string(double)> y_text;
  bool is_x_logarithmic = false;  // REQUIRES: if true, the x of every point is above 0
  double y_max = 0;               // upper end of the y axis; 0: the largest y of all points
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks;
};

struct BarChart {
  struct Bar {
    std::string name;  // label below this bar
    double value = 0;
    std::string text;  // label above this bar
  };
  std::string title, subtitle, x_label, y_label;
  std::function<std::string(double)> y_text;
  std::vector<Bar> bars;
};

// Returns the content of an SVG file with the line chart.
std::string DrawLineChart(const LineChart& chart);
// Returns the content of an SVG file with the bar chart.
std::string DrawBarChart(const BarChart& chart);

// Returns about `count` + 1 round axis values in equal steps from 0. The last value is `max`, or
// the first step above `max`.
std::vector<double> RoundTicks(double max, int32_t count);
// Returns axis values in [min, max]: the powers of ten and, if these are fewer than three, also 2
// and 5 times the powers of ten. Both bounds are included.
std::vector<double> LogarithmicTicks(double min, double max);

}  // namespace incipit
