#include "tests/serving_sim/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/check.h"

namespace incipit::serving_sim {
namespace {

using Row = std::vector<std::string>;

// Returns the rows with aligned columns. The first `num_left` columns are aligned to the left.
std::string Aligned(const std::vector<Row>& rows, size_t num_left) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    INCIPIT_CHECK(row.size() == widths.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += i < num_left ? fmt::format("{:<{}}  ", row[i], widths[i])
                           : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

// Returns a time with three digits.
std::string Seconds(double seconds) {
  if (seconds < 0.1) return fmt::format("{:.1f}ms", seconds * 1000);
  if (seconds < 1) return fmt::format("{:.0f}ms", seconds * 1000);
  return fmt::format("{:.{}f}s", seconds, seconds < 10 ? 2 : seconds < 100 ? 1 : 0);
}

std::string Pair(const Percentiles& values) {
  return Seconds(values.p50) + " " + Seconds(values.p99);
}

Row CellsOf(const RunResult& result) {
  const Metrics& m = result.metrics;
  const bool has_window = m.service.has_window;
  return {std::string(NameIn(kLoadNames, result.load)),
          fmt::format("{:.2f}", result.utilization),
          std::string(NameIn(kSchedulerNames, result.scheduler)),
          Pair(m.ttft),
          Pair(m.focus_ttft),
          Pair(m.itl),
          Pair(m.focus_itl),
          fmt::format("{:.2f}", m.goodput),
          fmt::format("{:.0f}", 100 * m.met_ttft),
          fmt::format("{:.0f}", 100 * m.met_itl),
          fmt::format("{:.0f}", 100 * m.focus_met),
          fmt::format("{:.0f}", m.throughput),
          fmt::format("{:.3f}", m.makespan_ratio),
          fmt::format("{}", m.refused),
          m.refused > 0 ? fmt::format("{:.2f}", m.refusal_time) : "-",
          m.wrongly_refused ? fmt::format("{:.1f}", 100 * *m.wrongly_refused) : "-",
          fmt::format("{}", m.late),
          fmt::format("{}", m.cut),
          has_window ? fmt::format("{:.0f}", 100 * m.service.share) : "-",
          has_window ? fmt::format("{:.1f}", m.service.requests) : "-",
          has_window ? fmt::format("{:.1f}", m.service.excess_requests) : "-",
          fmt::format("{}", m.overtakes),
          fmt::format("{}", m.wait_steps),
          fmt::format("{:.1f}", 100 * m.duplicate),
          fmt::format("{}", m.preemptions),
          fmt::format("{:.0f}", m.step_tokens)};
}

bool IsSameLoad(const RunResult& a, const RunResult& b) {
  return a.load == b.load && a.utilization == b.utilization;
}

std::string Ratio(double a, double b) { return b > 0 ? fmt::format("{:.2f}", a / b) : "-"; }

}  // namespace

std::string ResultTable(std::span<const RunResult> results) {
  std::vector<Row> rows = {{"load",        "util",      "scheduler",  "ttft p50 p99", "focus ttft",
                            "itl p50 p99", "focus itl", "goodput/s",  "ttft ok %",    "itl ok %",
                            "focus ok %",  "out tok/s", "makespan",   "refused",      "refused at",
                            "wrong %",     "late",      "cut",        "share %",      "share req",
                            "excess req",  "overtakes", "wait steps", "dup %",        "preempt",
                            "tok/step"}};
  for (const RunResult& result : results) rows.push_back(CellsOf(result));
  return Aligned(rows, 3);
}

std::string ComparisonTable(std::span<const RunResult> results) {
  std::vector<Row> rows = {{"load", "util", "capacity/s", "requests", "goodput / best",
                            "out tok/s / best", "focus ttft p99 / chunked", "ttft p99 / best",
                            "itl p99 / best"}};
  for (const RunResult& ours : results) {
    if (ours.scheduler != SchedulerKind::kOurs) continue;
    double goodput = 0, throughput = 0, ttft = kNever, itl = kNever, focus_ttft = 0;
    for (const RunResult& other : results) {
      if (other.scheduler == SchedulerKind::kOurs || !IsSameLoad(ours, other)) continue;
      goodput = std::max(goodput, other.metrics.goodput);
      throughput = std::max(throughput, other.metrics.throughput);
      ttft = std::min(ttft, other.metrics.ttft.p99);
      itl = std::min(itl, other.metrics.itl.p99);
      if (other.scheduler == SchedulerKind::kFcfsChunked) focus_ttft = other.metrics.focus_ttft.p99;
    }
    if (throughput == 0) continue;
    const Metrics& m = ours.metrics;
    rows.push_back({std::string(NameIn(kLoadNames, ours.load)),
                    fmt::format("{:.2f}", ours.utilization), fmt::format("{:.3g}", ours.capacity),
                    fmt::format("{}", ours.num_requests), Ratio(m.goodput, goodput),
                    Ratio(m.throughput, throughput), Ratio(m.focus_ttft.p99, focus_ttft),
                    Ratio(m.ttft.p99, ttft), Ratio(m.itl.p99, itl)});
  }
  return rows.size() > 1 ? Aligned(rows, 1) : "";
}

std::string ResultJson(const DeviceModel& device, const RunResult& result) {
  const Metrics& m = result.metrics;
  const auto pair = [](const Percentiles& values) {
    return nlohmann::ordered_json{{"p50", values.p50}, {"p99", values.p99}};
  };
  nlohmann::ordered_json json = {{"device", device.name},
                                 {"load", NameIn(kLoadNames, result.load)},
                                 {"utilization", result.utilization},
                                 {"scheduler", NameIn(kSchedulerNames, result.scheduler)},
                                 {"requests", result.num_requests},
                                 {"capacity", result.capacity},
                                 {"ttft_s", pair(m.ttft)},
                                 {"itl_s", pair(m.itl)},
                                 {"focus_ttft_s", pair(m.focus_ttft)},
                                 {"focus_itl_s", pair(m.focus_itl)},
                                 {"goodput", m.goodput},
                                 {"met_ttft", m.met_ttft},
                                 {"met_itl", m.met_itl},
                                 {"focus_met", m.focus_met},
                                 {"output_tokens_per_s", m.throughput},
                                 {"makespan_s", m.makespan},
                                 {"makespan_min_s", result.makespan_min},
                                 {"refused", m.refused},
                                 {"refusal_time", m.refusal_time},
                                 {"late", m.late},
                                 {"cut", m.cut},
                                 {"preemptions", m.preemptions},
                                 {"overtakes", m.overtakes},
                                 {"wait_steps", m.wait_steps},
                                 {"duplicate_prompt_tokens", m.duplicate},
                                 {"step_tokens", m.step_tokens},
                                 {"cpu_s", result.cpu_s}};
  if (m.service.has_window) {
    json["service_difference"] = {{"share", m.service.share},
                                  {"requests", m.service.requests},
                                  {"excess_requests", m.service.excess_requests}};
  }
  if (m.wrongly_refused) json["wrongly_refused"] = *m.wrongly_refused;
  return json.dump() + "\n";
}

}  // namespace incipit::serving_sim
