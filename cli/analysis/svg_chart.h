// Charts with axes: lines over a number, and bars over ranges.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/analysis/svg.h"

namespace incipit {

// How an axis's values become words.
struct ChartScale {
  std::string unit;                         // to the right of its labels; empty: x_label has it
  std::function<std::string(double)> text;  // of a value
};

struct ChartSeries {
  std::string name;
  std::vector<SvgPoint> points;  // in the chart's units, x ascending
  bool dashed = false;
};

// A point that is spoken about.
struct ChartMark {
  SvgPoint at;
  std::string text;
};

struct LineChart {
  std::string title, subtitle, x_label, y_label;
  std::vector<ChartScale> x_scales;  // at least one: further ones say the same in other units
  std::function<std::string(double)> y_text;
  bool is_x_logarithmic = false;  // then every x is above 0
  double y_max = 0;               // 0: from the points
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks;
};

struct BarChart {
  struct Bar {
    std::string name;  // below it
    double value = 0;
    std::string text;  // above it
  };
  std::string title, subtitle, x_label, y_label;
  std::function<std::string(double)> y_text;
  std::vector<Bar> bars;
};

// Whole SVG files.
std::string DrawLineChart(const LineChart& chart);
std::string DrawBarChart(const BarChart& chart);

// About `count` round values from 0 on; the last one is `max` or just beyond it.
std::vector<double> RoundTicks(double max, int32_t count);
// Powers of ten, with 2 and 5 times them where there would be few, within [min, max].
std::vector<double> LogarithmicTicks(double min, double max);

}  // namespace incipit
