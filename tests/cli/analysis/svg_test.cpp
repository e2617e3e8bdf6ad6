#include "cli/analysis/svg.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/analysis/svg_chart.h"

namespace incipit {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointwise;
using ::testing::StartsWith;

std::string PlainText(double value) { return fmt::format("{}", value); }

TEST(SvgTest, MarkupInTextIsEscaped) {
  EXPECT_EQ(EscapeXml("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(EscapeXml("caf\u00e9 \u732b"), "caf\u00e9 \u732b");
}

TEST(SvgTest, WhatXmlCannotHoldIsReplaced) {
  EXPECT_EQ(EscapeXml(std::string_view("\x1b[31m\0x", 7)), "\uFFFD[31m\uFFFDx");
  EXPECT_EQ(EscapeXml("a\xff\xfe"), "a\uFFFD\uFFFD");
  EXPECT_EQ(EscapeXml("\uFFFE"), "\uFFFD");
}

TEST(SvgTest, ADocumentIsOneClosedElementWithATitle) {
  SvgDocument svg(100, 50, "A <title>", "says & does");
  svg.Text({10, 20}, "</svg>", {.bold = true});
  const SvgPoint points[] = {{0, 0}, {1.239, -0.001}};
  svg.Polyline(points, {.color = "#000000", .dashes = "4 3"});
  const std::string text = std::move(svg).Finish();
  EXPECT_THAT(text, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100\""));
  EXPECT_THAT(text, HasSubstr("<title>A &lt;title&gt;</title>\n<desc>says &amp; does</desc>"));
  EXPECT_THAT(text, HasSubstr("&lt;/svg&gt;"));
  EXPECT_THAT(text, HasSubstr("points=\"0,0 1.24,0\""));
  EXPECT_EQ(text.find("</svg>"), text.size() - 7);
}

TEST(SvgChartTest, TicksAreRoundAndReachTheLargestValue) {
  EXPECT_THAT(RoundTicks(65.1, 5), ElementsAre(0, 20, 40, 60, 80));
  EXPECT_THAT(RoundTicks(100, 5), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(RoundTicks(7, 5), ElementsAre(0, 2, 4, 6, 8));
  EXPECT_THAT(RoundTicks(0.3, 5), Pointwise(DoubleNear(1e-12), std::vector({0.0, 0.1, 0.2, 0.3})));
  EXPECT_THAT(RoundTicks(0, 5),
              Pointwise(DoubleNear(1e-12), std::vector({0.0, 0.2, 0.4, 0.6, 0.8, 1.0})));
}

TEST(SvgChartTest, LogarithmicTicksArePowersOfTenUnlessThereAreFew) {
  EXPECT_THAT(LogarithmicTicks(8, 30'000), ElementsAre(10, 100, 1000, 10'000));
  EXPECT_THAT(LogarithmicTicks(8, 60), ElementsAre(10, 20, 50));
  EXPECT_THAT(LogarithmicTicks(1, 10), ElementsAre(1, 2, 5, DoubleEq(10)));
}

LineChart ChartOf(std::vector<SvgPoint> points, bool is_logarithmic) {
  LineChart chart;
  chart.title = "title";
  chart.x_label = "x in m";
  chart.y_label = "y in kg";
  chart.x_scales = {{"m", PlainText}, {"km", [](double m) { return PlainText(m / 1000); }}};
  chart.y_text = PlainText;
  chart.is_x_logarithmic = is_logarithmic;
  chart.series = {{"a series", std::move(points), false}};
  return chart;
}

TEST(SvgChartTest, AxesCarryLabelsAndEveryScalesUnits) {
  LineChart chart = ChartOf({{10, 1}, {1000, 4}}, true);
  chart.marks = {{{100, 2}, "the middle"}};
  const std::string text = DrawLineChart(chart);
  for (const char* const part : {">x in m<", ">y in kg<", ">m<", ">km<", ">1000<", ">0.01<",
                                 ">a series<", ">the middle<", ">4<"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(SvgChartTest, ChartsOfNothingAndOfOneValueHaveFiniteCoordinates) {
  for (const bool is_logarithmic : {false, true}) {
    for (const auto& points : {std::vector<SvgPoint>{}, {{1, 0}}, {{5, 0}, {5, 0}}}) {
      const std::string text = DrawLineChart(ChartOf(points, is_logarithmic));
      EXPECT_THAT(text, Not(HasSubstr("nan")));
      EXPECT_THAT(text, Not(HasSubstr("inf")));
    }
  }
  BarChart bars;
  bars.y_text = PlainText;
  EXPECT_THAT(DrawBarChart(bars), Not(HasSubstr("nan")));
  bars.bars = {{"none", 0, "0 %"}};
  EXPECT_THAT(DrawBarChart(bars), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace incipit
