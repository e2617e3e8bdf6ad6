#include "cli/analysis/replay_output.h"

#include <fmt/format.h>

#include "cli/analysis/analyze_text.h"

namespace incipit {
namespace {

// Formats a ratio as a percentage with two decimals, because the hit ratios of policies often
// differ by less than one percentage point.
std::string FinePercent(double ratio) { return fmt::format("{:.2f} %", 100 * ratio); }

std::string HeadText(const Replay& replay) {
  return fmt::format(
      "Log {}: {} requests, {} blocks of {} tokens, {} distinct blocks\n"
      "Cache of {} blocks ({} of the distinct blocks); eviction rule: {}\n\n",
      VisibleText(replay.name), Thousands(replay.num_requests), Thousands(replay.num_blocks),
      Thousands(replay.block_tokens), Thousands(replay.num_distinct), Thousands(replay.capacity),
      FinePercent(RatioOf(replay.capacity, replay.num_distinct)),
      replay.make_room_first
          ? "policies evict blocks before a prompt enters the cache"
          : "policies may evict blocks of the prompt that has just entered the cache");
}

}  // namespace

std::string Describe(const Replay& replay) {
  constexpr auto kLeft = TextTable::Align::kLeft;
  TextTable table({{"policy", kLeft},
                   {"block hits"},
                   {"of the optimum"},
                   {"prompt tokens hit"},
                   {"evictions"},
                   {"regret"}});
  for (const ReplayResult& result : replay.results) {
    table.Add({std::string(NameOf(result.policy)),
               FinePercent(RatioOf(result.hit_blocks, replay.num_blocks)),
               FinePercent(RatioOf(result.hit_blocks, replay.optimum_hits)),
               FinePercent(RatioOf(result.hit_tokens, replay.num_tokens)),
               Thousands(result.evictions), Thousands(result.regret)});
  }
  table.Add(
      {"optimum", FinePercent(RatioOf(replay.optimum_hits, replay.num_blocks)), "", "", "", ""});
  std::string text = HeadText(replay) + table.Text(2);
  for (const std::string& note : replay.notes) text += "\nNote: " + note + "\n";
  return text;
}

nlohmann::ordered_json ToJson(const Replay& replay) {
  auto results = nlohmann::ordered_json::array();
  for (const ReplayResult& result : replay.results) {
    results.push_back({{"policy", NameOf(result.policy)},
                       {"block_hit_ratio", RatioOf(result.hit_blocks, replay.num_blocks)},
                       {"token_hit_ratio", RatioOf(result.hit_tokens, replay.num_tokens)},
                       {"evictions", result.evictions},
                       {"regret", result.regret}});
  }
  return {{"distinct_blocks", replay.num_distinct},
          {"capacity", replay.capacity},
          {"optimum", RatioOf(replay.optimum_hits, replay.num_blocks)},
          {"results", std::move(results)}};
}

}  // namespace incipit
