// Compares the metrics of the server with the documentation, the alert rules and the dashboard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/server/metrics/metrics_fixture.h"
#include "tests/support/temp_path.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;

Families FamiliesDocumented() {
  std::ifstream file(INCIPIT_SOURCE_DIR "/docs/operations.md");
  const std::regex row("\\| `([a-z0-9_:]+)` \\| ([a-z]+) \\|([^|]*)\\|.*");
  const std::regex label_pattern("`([a-z_]+)`");
  Families families;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    std::string text = match[2];
    const std::string cell = match[3];
    std::set<std::string> labels;
    for (std::sregex_iterator it(cell.begin(), cell.end(), label_pattern), end; it != end; ++it) {
      labels.insert((*it)[1]);
    }
    for (const std::string& label : labels) text += " " + label;
    families[match[1]] = text;
  }
  return families;
}

TEST(MetricsGuideTest, TheOperationsGuideListsExactlyWhatIsServed) {
  EXPECT_EQ(FamiliesDocumented(), FamiliesServed(FilledMetrics(true)->Text()));
}

TEST(MetricsGuideTest, TheOperationsGuideListsEveryReasonOfARejection) {
  std::ifstream file(INCIPIT_SOURCE_DIR "/docs/operations.md");
  const std::string guide((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (size_t i = 0; i < static_cast<size_t>(RejectionLabel::kOther); ++i) {
    const std::string label(NameOf(static_cast<RejectionLabel>(i)));
    EXPECT_THAT(guide, HasSubstr("\n| `" + label + "` |"));
  }
}

// Returns the text of the file `name` in deploy/prometheus.
std::string DeployFile(const std::string& name) {
  std::ifstream file(INCIPIT_SOURCE_DIR "/deploy/prometheus/" + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string AlertRules() { return DeployFile("alerts.yaml"); }

// Checks that the server serves each metric that `file` names. Returns the number of names.
size_t CheckNames(const std::string& file) {
  const std::string text = FilledMetrics(false)->Text();
  const std::regex name("incipit_[a-z0-9_]+");
  size_t num_names = 0;
  for (std::sregex_iterator it(file.begin(), file.end(), name), end; it != end; ++it) {
    EXPECT_THAT(text, HasSubstr("\n" + it->str())) << "the server does not serve this metric";
    ++num_names;
  }
  return num_names;
}

TEST(MetricsGuideTest, EveryAlertIsAboutSomethingThatIsServed) {
  EXPECT_GT(CheckNames(AlertRules()), 4u);
}

TEST(MetricsGuideTest, TheDashboardIsValidAndEveryPanelShowsSomethingThatIsServed) {
  const std::string text = DeployFile("dashboard.json");
  const auto dashboard = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(dashboard.is_object());
  EXPECT_GT(CheckNames(text), 12u);
  std::set<int> ids;
  std::set<std::pair<int, int>> places;
  for (const auto& panel : dashboard["panels"]) {
    EXPECT_TRUE(ids.insert(panel["id"].get<int>()).second) << panel["title"];
    const auto& place = panel["gridPos"];
    EXPECT_TRUE(places.emplace(place["x"], place["y"]).second) << panel["title"];
    EXPECT_FALSE(panel["targets"].empty()) << panel["title"];
  }
}

TEST(MetricsGuideTest, TheOperationsGuideShowsTheAlertOfTheHitRatioAsItIsShipped) {
  const std::string rules = AlertRules();
  const size_t begin = rules.find("      - alert: IncipitPrefixCacheDecayed");
  ASSERT_NE(begin, std::string::npos);
  const size_t end = rules.find("      - alert:", begin + 1);
  std::ifstream file(INCIPIT_SOURCE_DIR "/docs/operations.md");
  const std::string guide((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(guide, HasSubstr(rules.substr(begin, end - begin)));
}

bool HasPromtool() { return std::system("promtool --version >/dev/null 2>&1") == 0; }

TEST(MetricsGuideTest, PromtoolTakesTheAlerts) {
  if (!HasPromtool()) {
    GTEST_SKIP() << "promtool (Debian package prometheus) is not installed";
  }
  const std::string command =
      "promtool check rules " INCIPIT_SOURCE_DIR "/deploy/prometheus/alerts.yaml >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(MetricsGuideTest, PromtoolFindsNothingToSay) {
  if (!HasPromtool()) {
    GTEST_SKIP() << "promtool (Debian package prometheus) is not installed";
  }
  const std::string output_path = TempPath("promtool_output");
  FILE* const pipe = popen(("promtool check metrics >" + output_path + " 2>&1").c_str(), "w");
  ASSERT_NE(pipe, nullptr);
  // promtool rejects metric names with a colon, such as those of vLLM.
  std::string text;
  for (const std::string& line : LinesOf(FilledMetrics(true)->Text())) {
    if (line.find("vllm:") == std::string::npos) text += line + "\n";
  }
  fwrite(text.data(), 1, text.size(), pipe);
  const int exit_code = pclose(pipe);
  std::ifstream output(output_path);
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(output)), std::istreambuf_iterator<char>()),
            "");
  EXPECT_EQ(exit_code, 0);
}

}  // namespace
}  // namespace incipit
