// Combines the streamed messages of an output, and converts the complete output to JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "incipit/v1/inference.pb.h"

namespace incipit {

// The output of one Generate or Chat call, combined from all response messages of the call.
class CollectedOutput {
 public:
  struct Choice {
    std::string text;
    std::vector<uint32_t> token_ids;
    std::vector<v1::PositionLogprobs> logprobs;
    // The message that ended this choice, with the finish reason. If a stop string or a stop token
    // ended the choice, the message also contains this string or token.
    v1::Delta last;
  };

  void Add(const v1::GenerateResponse& response);

  const std::vector<Choice>& choices() const { return choices_; }
  const v1::Usage& usage() const { return usage_; }
  bool has_text() const;

  // Returns the JSON object {"text", "token_ids", "finish_reason", "logprobs", "usage": {...}, ...}
  // for the first choice. If the request has several choices (outputs for one prompt), the key
  // "choices" contains the objects of all choices.
  nlohmann::ordered_json ToJson(bool with_logprobs, bool with_prompt_logprobs) const;

 private:
  std::string request_id_;
  std::vector<Choice> choices_{1};
  std::vector<v1::PositionLogprobs> prompt_logprobs_;
  v1::Usage usage_;
};

// Returns one line of text with the number of tokens, the number of cached tokens and the times in
// `usage`.
std::string DescribeUsage(const v1::Usage& usage);

}  // namespace incipit
