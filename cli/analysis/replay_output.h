// Formats the results of a replay (eviction policies applied to a log of prompts) as a text table
// and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/analysis/replay_run.h"

namespace incipit {

// The disk tier of a replay, for the output.
struct ReplayDiskText {
  int64_t capacity_bytes = 0;
  int64_t working_set_bytes = 0;  // bytes of all distinct chunks of the log
  int64_t chunk_tokens = 0;
  int64_t chunk_bytes = 0;
  double write_bytes_per_s = 0;  // 0: writes take no time
  // Number of prompt blocks that occurred in an earlier prompt: the hits of an infinite cache.
  int64_t infinite_hits = 0;
  std::optional<double> prefill_tokens_per_s{};
};

struct Replay {
  std::string name;  // name of the log of prompts
  int64_t num_requests = 0;
  int64_t block_tokens = 0;
  int64_t num_blocks = 0;    // sum of the numbers of blocks of all prompts
  int64_t num_tokens = 0;    // sum of the numbers of tokens of all prompts
  int64_t num_distinct = 0;  // number of distinct blocks in the log
  int64_t capacity = 0;      // cache size in blocks
  bool make_room_first = false;
  int64_t optimum_hits = 0;  // maximum number of block hits that any eviction policy can have
  std::vector<ReplayResult> results{};
  std::optional<ReplayDiskText> disk{};  // absent: no disk tier
  // Sentences about contradictions in the log, such as decreasing timestamps.
  std::vector<std::string> notes{};
};

// Returns the results of the replay as a text table.
std::string Describe(const Replay& replay);

// Returns the results of the replay as one JSON object, whose keys docs/replay.md lists.
nlohmann::ordered_json ToJson(const Replay& replay);

}  // namespace incipit
