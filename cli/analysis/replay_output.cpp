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

double SecondsSaved(int64_t num_tokens, double tokens_per_s) {
  return static_cast<double>(num_tokens) / tokens_per_s;
}

// Returns a size with its unit, such as "1.23 GB".
std::string BytesText(double bytes) {
  return bytes < 999.5 ? fmt::format("{:.0f} B", bytes) : ShortNumber(bytes) + "B";
}
std::string BytesText(int64_t bytes) { return BytesText(static_cast<double>(bytes)); }

// Describes the disk, and the hits and writes of each policy with the disk.
std::string DiskText(const Replay& replay) {
  const ReplayDiskText& disk = *replay.disk;
  std::string text = fmt::format(
      "\nDisk of {} for a working set of {}; chunks of {} tokens and {}; writes: {}\n"
      "Block hits of an infinite cache: {}\n\n",
      BytesText(disk.capacity_bytes), BytesText(disk.working_set_bytes),
      Thousands(disk.chunk_tokens), BytesText(disk.chunk_bytes),
      disk.write_bytes_per_s == 0 ? "without limit" : BytesText(disk.write_bytes_per_s) + "/s",
      FinePercent(RatioOf(disk.infinite_hits, replay.num_blocks)));
  constexpr auto kLeft = TextTable::Align::kLeft;
  std::vector<TextTable::Column> columns = {{"policy", kLeft}, {"device hits"},   {"disk hits"},
                                            {"all hits"},      {"written"},       {"moved"},
                                            {"read"},          {"dropped stores"}};
  if (disk.prefill_tokens_per_s) {
    columns.insert(columns.end(), {{"prefill saved: device"}, {"by disk"}});
  }
  TextTable table(columns);
  for (const ReplayResult& result : replay.results) {
    std::vector<std::string> row = {
        std::string(NameOf(result.policy)),
        FinePercent(RatioOf(result.hit_blocks, replay.num_blocks)),
        FinePercent(RatioOf(result.disk_hit_blocks, replay.num_blocks)),
        FinePercent(RatioOf(result.hit_blocks + result.disk_hit_blocks, replay.num_blocks)),
        BytesText(result.disk.stored * disk.chunk_bytes),
        BytesText(result.disk.moved * disk.chunk_bytes),
        BytesText(result.disk.loaded * disk.chunk_bytes),
        Thousands(result.disk.dropped_stores)};
    if (disk.prefill_tokens_per_s) {
      const double rate = *disk.prefill_tokens_per_s;
      row.push_back(TimeText(SecondsSaved(result.hit_tokens, rate)));
      row.push_back(TimeText(SecondsSaved(result.disk_hit_tokens, rate)));
    }
    table.Add(std::move(row));
  }
  return text + table.Text(2);
}

nlohmann::ordered_json DiskJson(const Replay& replay, const ReplayResult& result) {
  const ReplayDiskText& disk = *replay.disk;
  nlohmann::ordered_json json = {
      {"block_hit_ratio", RatioOf(result.disk_hit_blocks, replay.num_blocks)},
      {"token_hit_ratio", RatioOf(result.disk_hit_tokens, replay.num_tokens)},
      {"bytes_written", result.disk.stored * disk.chunk_bytes},
      {"bytes_moved", result.disk.moved * disk.chunk_bytes},
      {"bytes_read", result.disk.loaded * disk.chunk_bytes},
      {"dropped_stores", result.disk.dropped_stores},
      {"reclaimed_chunks", result.disk.reclaimed}};
  if (disk.prefill_tokens_per_s) {
    const double rate = *disk.prefill_tokens_per_s;
    json["prefill_seconds_saved"] = {{"device", SecondsSaved(result.hit_tokens, rate)},
                                     {"disk", SecondsSaved(result.disk_hit_tokens, rate)}};
  }
  return json;
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
  if (replay.disk) text += DiskText(replay);
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
    if (replay.disk) results.back()["disk"] = DiskJson(replay, result);
  }
  nlohmann::ordered_json json = {{"distinct_blocks", replay.num_distinct},
                                 {"capacity", replay.capacity},
                                 {"optimum", RatioOf(replay.optimum_hits, replay.num_blocks)}};
  if (replay.disk) {
    json["disk"] = {
        {"capacity_bytes", replay.disk->capacity_bytes},
        {"working_set_bytes", replay.disk->working_set_bytes},
        {"chunk_tokens", replay.disk->chunk_tokens},
        {"infinite_block_hit_ratio", RatioOf(replay.disk->infinite_hits, replay.num_blocks)}};
  }
  json["results"] = std::move(results);
  return json;
}

}  // namespace incipit
