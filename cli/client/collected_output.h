// A streamed answer put together again, and how it reads as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "incipit/v1/inference.pb.h"

namespace incipit {

// The sum of the messages of one Generate or Chat call.
class CollectedOutput {
 public:
  struct Choice {
    std::string text;
    std::vector<uint32_t> token_ids;
    std::vector<v1::PositionLogprobs> logprobs;
    v1::Delta last;  // with the finish reason and what stopped it
  };

  void Add(const v1::GenerateResponse& response);

  const std::vector<Choice>& choices() const { return choices_; }
  const v1::Usage& usage() const { return usage_; }
  bool has_text() const;

  // {"text", "token_ids", "finish_reason", "logprobs", "usage": {...}, ...} of the first choice;
  // with several, all of them also under "choices".
  nlohmann::ordered_json ToJson(bool with_logprobs, bool with_prompt_logprobs) const;

 private:
  std::string request_id_;
  std::vector<Choice> choices_{1};
  std::vector<v1::PositionLogprobs> prompt_logprobs_;
  v1::Usage usage_;
};

// One line for people: tokens, cached tokens, times.
std::string DescribeUsage(const v1::Usage& usage);

}  // namespace incipit
