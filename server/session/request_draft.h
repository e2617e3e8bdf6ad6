// A request as a client sent it, independent of the protocol. The values are not checked, and
// optional values that the client did not set are absent. The adapter of each protocol fills a
// RequestDraft, and CheckDraft converts the draft to a CheckedRequest.
//
// If a list is longer than its limit, an adapter may copy only the first elements. The adapter then
// sets the field `num_...` of the list to the number of elements that the client sent. If `num_...`
// is 0, the list is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/types.h"

namespace incipit {

struct SamplingDraft {
  std::optional<float> temperature, top_p, repetition_penalty;
  std::optional<uint32_t> top_k;
  float min_p = 0, presence_penalty = 0, frequency_penalty = 0;
  // Pairs of token id and bias. The token ids are distinct.
  std::vector<std::pair<uint32_t, float>> logit_bias;
  std::optional<uint64_t> seed;
};

struct OutputDraft {
  uint32_t max_tokens = 0;  // maximum number of output tokens; 0: the rest of the context
  uint32_t min_tokens = 0;
  std::vector<std::string> stop;
  size_t num_stop = 0;  // number of stop strings that the client sent; 0: `stop.size()`
  std::vector<TokenId> stop_token_ids;
  bool include_stop = false, ignore_eos = false, keep_special_tokens = false;
  uint32_t num_choices = 0;  // number of choices; 0 means 1 choice
  std::optional<uint32_t> logprobs, prompt_logprobs;
};

// A span of time that is not checked: `seconds` and `nanos` may have different signs.
struct RawSpan {
  int64_t seconds = 0;
  int32_t nanos = 0;
};

struct RetentionDraft {
  std::optional<int32_t> priority;
  std::optional<RawSpan> time_to_live, pin;
};

struct CacheDraft {
  std::string salt;
  bool skip_read = false;
  RetentionDraft retention;
};

struct ToolCallDraft {
  std::string id, name, arguments_json;
};

struct MessageDraft {
  std::string role, content, name, tool_call_id;
  std::vector<ToolCallDraft> tool_calls;
  size_t num_tool_calls = 0;  // number of tool calls that the client sent; 0: `tool_calls.size()`
};

struct ToolDraft {
  std::string name, description, parameters_json;
};

struct ConversationDraft {
  std::vector<MessageDraft> messages;
  std::vector<ToolDraft> tools;
  // Numbers of messages and tools that the client sent. 0: the size of `messages` or `tools`.
  size_t num_messages = 0, num_tools = 0;
  std::string template_arguments_json;
  bool add_generation_prompt = true;
};

// Token ids from a client, not checked. An unsigned id is stored as the TokenId with the same 32
// bits.
using TokensDraft = std::vector<TokenId>;

struct RequestDraft {
  std::string label, model;
  std::variant<std::monostate, std::string, TokensDraft, ConversationDraft> prompt;
  SamplingDraft sampling;
  OutputDraft output;
  CacheDraft cache;
  int32_t priority = 0;
};

}  // namespace incipit
