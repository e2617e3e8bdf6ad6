// Creates small random request logs, together with the prompts. The prompts share many prefixes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cli/analysis/analyze_blocks.h"

namespace incipit {

// A request log and its prompts. Each character of a prompt is one block.
struct RandomBlockLog {
  std::vector<std::string> prompts;
  std::vector<double> times;
  std::unique_ptr<BlockLog> log;
};

inline RandomBlockLog MakeRandomBlockLog(uint32_t seed, int32_t block_tokens = 1) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t count) { return static_cast<uint32_t>(random() % count); };
  RandomBlockLog made;
  made.log = std::make_unique<BlockLog>(1, block_tokens);
  const uint32_t num_requests = 1 + below(40), length_max = 1 + below(12), alphabet = 1 + below(4);
  double time = 0;
  for (uint32_t i = 0; i < num_requests; ++i) {
    std::string prompt;
    // Most prompts start with a prefix of an earlier prompt.
    if (i > 0 && below(3) > 0) {
      prompt = made.prompts[below(i)];
      prompt.resize(below(static_cast<uint32_t>(prompt.size()) + 1));
    }
    for (uint32_t left = below(length_max + 1); left > 0; --left) {
      prompt.push_back(static_cast<char>('a' + below(alphabet)));
    }
    if (below(3) > 0) time += below(10);
    const auto num_tokens = static_cast<int64_t>(prompt.size()) * block_tokens;
    const LoggedRequest request = {time, num_tokens, static_cast<int64_t>(i) + 1};
    EXPECT_TRUE(made.log->Add(request, std::as_bytes(std::span(prompt))).ok());
    made.prompts.push_back(prompt);
    made.times.push_back(time);
  }
  return made;
}

// Returns the prompts, each cut to a multiple of `group` characters.
inline std::vector<std::string> WholeBlocks(const RandomBlockLog& made, size_t group) {
  std::vector<std::string> whole = made.prompts;
  for (std::string& prompt : whole) prompt.resize(prompt.size() / group * group);
  return whole;
}

}  // namespace incipit
