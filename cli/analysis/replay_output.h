// The two forms of a replay's results: for people and for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/analysis/replay_run.h"

namespace incipit {

struct Replay {
  std::string name;  // of the log
  int64_t num_requests = 0;
  int64_t block_tokens = 0;
  int64_t num_blocks = 0;    // references to blocks, of all prompts
  int64_t num_tokens = 0;    // of all prompts
  int64_t num_distinct = 0;  // blocks
  int64_t capacity = 0;      // blocks
  bool make_room_first = false;
  int64_t optimum_hits = 0;  // blocks
  std::vector<ReplayResult> results{};
  std::vector<std::string> notes{};  // what a reader should know before trusting the figures
};

// A table.
std::string Describe(const Replay& replay);

// {distinct_blocks, capacity, optimum, results: [{policy, block_hit_ratio, token_hit_ratio,
// evictions, regret}]}
nlohmann::ordered_json ToJson(const Replay& replay);

}  // namespace incipit
