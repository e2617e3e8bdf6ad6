// Formats the results of a replay as a text table and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/analysis/replay_run.h"

namespace incipit {

struct Replay {
  std::string name;  // name of the log
  int64_t num_requests = 0;
  int64_t block_tokens = 0;
  int64_t num_blocks = 0;    // blocks of all prompts; a block counts once per prompt
  int64_t num_tokens = 0;    // tokens of all prompts
  int64_t num_distinct = 0;  // distinct blocks in the log
  int64_t capacity = 0;      // blocks that the cache holds
  bool make_room_first = false;
  int64_t optimum_hits = 0;  // block hits of the optimal cache
  std::vector<ReplayResult> results{};
  std::vector<std::string> notes{};  // contradictions in the log
};

// Returns the results as a text table.
std::string Describe(const Replay& replay);

// Returns the results as one JSON object: {distinct_blocks, capacity, optimum, results: [{policy,
// block_hit_ratio, token_hit_ratio, evictions, regret}]}.
nlohmann::ordered_json ToJson(const Replay& replay);

}  // namespace incipit
