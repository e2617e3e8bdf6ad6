// Collects the messages of a streamed output, and converts the complete output to JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "incipit/v1/inference.pb.h"

namespace incipit {

// The output of one Generate or Chat call, collected from all its messages.
class CollectedOutput {
 public:
  struct Choice {
    std::string text;
    std::vector<uint32_t> token_ids;
    std::vector<v1::PositionLogprobs> logprobs;
    // Last message of the choice, with the finish reason and the stop string or token.
    v1::Delta last;
  };

  void Add(const v1::GenerateResponse& response);

  const std::vector<Choice>& choices() const { return choices_; }
  const v1::Usage& usage() const { return usage_; }
  bool has_text() const;

  // Returns the JSON object {"text", "token_ids", "finish_reason", "logprobs", "usage": {...}, ...}
  // for the first choice. If there are several choices (outputs for one prompt), "choices" contains
  // all choices.
  nlohmann::ordered_json ToJson(bool with_logprobs, bool with_prompt_logprobs) const;

 private:
  std::string request_id_;
  std::vector<Choice> choices_{1};
  std::vector<v1::PositionLogprobs> prompt_logprobs_;
  v1::Usage usage_;
};

// Returns `usage` as one line for a terminal: number of tokens, number of cached tokens, and times.
std::string DescribeUsage(const v1::Usage& usage);

}  // namespace incipit
