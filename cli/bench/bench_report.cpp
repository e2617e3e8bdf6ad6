#include "cli/bench/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace incipit {
namespace {

using nlohmann::ordered_json;

constexpr size_t kErrorsShown = 5;

// Rounds `value` to 3 decimal places.
double Rounded(double value) { return std::round(value * 1e3) / 1e3; }

ordered_json ToJson(const Percentiles& percentiles) {
  return {{"p50", Rounded(percentiles.p50)},
          {"p90", Rounded(percentiles.p90)},
          {"p99", Rounded(percentiles.p99)},
          {"max", Rounded(percentiles.max)}};
}

std::string Row(std::string_view name, const Percentiles& percentiles) {
  return fmt::format("{:<22}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", name, percentiles.p50,
                     percentiles.p90, percentiles.p99, percentiles.max);
}

double Share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

ordered_json Ratio(std::optional<int64_t> part, int64_t whole) {
  if (!part) return {};
  return std::round(Share(*part, whole) * 1e4) / 1e4;
}

ordered_json OrNull(std::optional<int64_t> count) {
  return count ? ordered_json(*count) : ordered_json();
}

double PerSecond(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

struct Span {
  double begin = 0, end = 0;
};

// Returns the periods in which at least `num_needed` of the time spans `spans` overlap. The periods
// are in ascending order.
std::vector<Span> OverlapsOf(std::span<const Span> spans, int32_t num_needed) {
  std::vector<std::pair<double, int32_t>> changes;
  for (const Span& span : spans) {
    changes.emplace_back(span.begin, 1);
    changes.emplace_back(span.end, -1);
  }
  std::sort(changes.begin(), changes.end());
  std::vector<Span> overlaps;
  int32_t num_open = 0;
  for (const auto& [time, change] : changes) {
    if (change > 0 && ++num_open == num_needed) overlaps.push_back({time, time});
    if (change < 0 && num_open-- == num_needed) overlaps.back().end = time;
  }
  return overlaps;
}

// Returns the number of output tokens of the request `record` in the time spans `spans`. A token
// counts as the fraction (0 to 1) of the time since the previous token that lies in `spans`. The
// first token does not count. REQUIRES: `spans` is in ascending order without overlaps.
double TokensWithin(const BenchRecord& record, std::span<const Span> spans) {
  double count = 0, time = record.due + record.first_token;
  auto span = spans.begin();
  for (const double gap : record.inter_token) {
    const double begin = time;
    time += gap;
    while (span != spans.end() && span->end <= begin) ++span;
    if (gap <= 0) continue;
    for (auto other = span; other != spans.end() && other->begin < time; ++other) {
      count += (std::min(time, other->end) - std::max(begin, other->begin)) / gap;
    }
  }
  return count;
}

// Returns the line of the report about evicted blocks. Returns an empty text if the server did not
// report the number of evicted blocks.
std::string DescribeEvictions(const BenchSummary& summary) {
  if (!summary.evictions || !summary.regret) return {};
  return fmt::format(
      "{} cached blocks evicted, {} blocks computed again soon after their eviction\n",
      *summary.evictions, *summary.regret);
}

// Returns the lines of the report without the lines about latencies and errors.
std::string DescribeLoad(const BenchSummary& summary) {
  std::string text;
  if (!summary.workload.empty()) {
    text += fmt::format("workload {}, lengths multiplied by {:.4g}\n", summary.workload,
                        summary.length_scale);
  }
  text += fmt::format("{} requests, {} errors, {:.2f} s\n", summary.num_requests,
                      summary.num_errors, summary.seconds);
  text +=
      fmt::format("{} prompt tokens, {} of them cached ({:.1f} %)", summary.prompt_tokens,
                  summary.cached_tokens, 100 * Share(summary.cached_tokens, summary.prompt_tokens));
  if (summary.implied_tokens) {
    text += fmt::format("; an empty cache without a size limit finds {:.1f} %",
                        100 * Share(*summary.implied_tokens, summary.prompt_tokens));
  }
  text += "\n" + DescribeEvictions(summary);
  text += fmt::format("{} output tokens, {:.1f} per second; {:.2f} requests per second\n",
                      summary.output_tokens, summary.output_tokens_per_s,
                      PerSecond(summary.num_requests - summary.num_errors, summary.seconds));
  text += fmt::format(
      "{:.2f} requests per second within {:g} ms to the first token and {:g} ms between tokens "
      "({} of {})\n",
      PerSecond(summary.num_within_targets, summary.seconds), summary.targets.first_token * 1e3,
      summary.targets.inter_token * 1e3, summary.num_within_targets, summary.num_requests);
  if (const FullLoad& full = summary.full_load; full.seconds > 0) {
    text += fmt::format(
        "{:.1f} output tokens per second while all {} requests were decoding ({:.2f} s)\n",
        full.output_tokens_per_s, full.concurrency, full.seconds);
  }
  return text;
}

}  // namespace

FullLoad FullLoadOf(const BenchResult& result) {
  FullLoad full{.concurrency = result.concurrency, .seconds = 0, .output_tokens_per_s = 0};
  if (result.concurrency == 0) return full;
  std::vector<Span> decoding;
  for (const BenchRecord& record : result.records) {
    const double first = record.due + record.first_token;
    const double last =
        std::accumulate(record.inter_token.begin(), record.inter_token.end(), first);
    if (last > first) decoding.push_back({first, last});
  }
  const std::vector<Span> spans = OverlapsOf(decoding, result.concurrency);
  for (const Span& span : spans) full.seconds += span.end - span.begin;
  if (full.seconds <= 0) return full;
  double num_tokens = 0;
  for (const BenchRecord& record : result.records) num_tokens += TokensWithin(record, spans);
  full.output_tokens_per_s = num_tokens / full.seconds;
  return full;
}

Percentiles PercentilesOf(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(seconds.size()));
    return seconds[static_cast<size_t>(std::max(rank, 1.0)) - 1] * 1e3;
  };
  return {at(0.5), at(0.9), at(0.99), seconds.back() * 1e3};
}

bool MeetsTargets(const BenchRecord& record, const BenchTargets& targets) {
  if (!record.error.empty() || record.output_tokens == 0) return false;
  return record.first_token <= targets.first_token &&
         PercentilesOf(record.inter_token).p99 <= targets.inter_token * 1e3;
}

BenchSummary Summarize(const BenchResult& result, const BenchTargets& targets) {
  BenchSummary summary;
  summary.targets = targets;
  summary.implied_tokens = 0;
  std::vector<double> first_token, inter_token, total;
  for (const BenchRecord& record : result.records) {
    ++summary.num_requests;
    summary.prompt_tokens += record.prompt_tokens;
    summary.cached_tokens += record.cached_tokens;
    summary.output_tokens += record.output_tokens;
    // The server reports no prompt tokens for a request that it has refused.
    if (record.prompt_tokens > 0) *summary.implied_tokens += record.implied_tokens;
    summary.num_within_targets += MeetsTargets(record, targets);
    if (!record.error.empty()) {
      ++summary.num_errors;
      ++summary.errors[record.error];
      continue;
    }
    if (record.output_tokens > 0) first_token.push_back(record.first_token);
    total.push_back(record.total);
    inter_token.insert(inter_token.end(), record.inter_token.begin(), record.inter_token.end());
  }
  summary.seconds = result.seconds;
  summary.output_tokens_per_s = PerSecond(summary.output_tokens, result.seconds);
  summary.full_load = FullLoadOf(result);
  summary.first_token = PercentilesOf(std::move(first_token));
  summary.inter_token = PercentilesOf(std::move(inter_token));
  summary.total = PercentilesOf(std::move(total));
  return summary;
}

ordered_json ToJson(int64_t index, const BenchRecord& record) {
  const bool has_output = record.output_tokens > 0;
  return {
      {"index", index},
      {"prompt_tokens", record.prompt_tokens},
      {"cached_tokens", record.cached_tokens},
      {"output_tokens", record.output_tokens},
      {"ttft_ms", has_output ? ordered_json(Rounded(record.first_token * 1000)) : ordered_json()},
      {"total_ms", Rounded(record.total * 1000)},
      {"error", record.error.empty() ? ordered_json() : ordered_json(record.error)}};
}

ordered_json ToJson(const BenchSummary& summary) {
  const FullLoad& full = summary.full_load;
  const auto or_null = [&](double value) {
    return full.seconds > 0 ? ordered_json(Rounded(value)) : ordered_json();
  };
  return {
      {"workload", summary.workload.empty() ? ordered_json() : ordered_json(summary.workload)},
      {"length_scale", summary.length_scale},
      {"requests", summary.num_requests},
      {"errors", summary.num_errors},
      {"duration_s", Rounded(summary.seconds)},
      {"prompt_tokens", summary.prompt_tokens},
      {"cached_tokens", summary.cached_tokens},
      {"hit_ratio", Ratio(summary.cached_tokens, summary.prompt_tokens)},
      {"implied_hit_ratio", Ratio(summary.implied_tokens, summary.prompt_tokens)},
      {"evictions", OrNull(summary.evictions)},
      {"regret", OrNull(summary.regret)},
      {"output_tokens", summary.output_tokens},
      {"output_tokens_per_s", Rounded(summary.output_tokens_per_s)},
      {"full_load_s", or_null(full.seconds)},
      {"full_load_output_tokens_per_s", or_null(full.output_tokens_per_s)},
      {"ttft_ms", ToJson(summary.first_token)},
      {"itl_ms", ToJson(summary.inter_token)},
      {"e2e_ms", ToJson(summary.total)},
      {"ttft_target_ms", Rounded(summary.targets.first_token * 1e3)},
      {"itl_target_ms", Rounded(summary.targets.inter_token * 1e3)},
      {"requests_within_targets", summary.num_within_targets},
      {"goodput_requests_per_s", Rounded(PerSecond(summary.num_within_targets, summary.seconds))}};
}

std::string Describe(const BenchSummary& summary) {
  std::string text = DescribeLoad(summary);
  text += "\n";
  text +=
      fmt::format("{:<22}{:>10}{:>10}{:>10}{:>10}\n", "milliseconds", "p50", "p90", "p99", "max");
  text += Row("time to first token", summary.first_token);
  text += Row("between tokens", summary.inter_token);
  text += Row("end to end", summary.total);
  size_t num_shown = 0;
  for (const auto& [error, count] : summary.errors) {
    if (num_shown++ == kErrorsShown) {
      text += fmt::format("... and {} other errors\n", summary.errors.size() - kErrorsShown);
      break;
    }
    text += fmt::format("{}{} x {}\n", num_shown == 1 ? "\n" : "", count, error);
  }
  return text;
}

}  // namespace incipit
