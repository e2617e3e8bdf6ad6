// A request as a client wrote it, in no protocol's terms: nothing is checked, and what was not
// given is absent. Each protocol's adapter fills one; CheckDraft makes a checked request of it.
//
// A list that is longer than its limit need not be copied whole: an adapter may stop at the limit
// and say in `num_...` how many elements the client wrote. 0: as many as there are.
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
  std::vector<std::pair<uint32_t, float>> logit_bias;  // token id, bias; distinct ids
  std::optional<uint64_t> seed;
};

struct OutputDraft {
  uint32_t max_tokens = 0;  // 0: the rest of the context
  uint32_t min_tokens = 0;
  std::vector<std::string> stop;
  size_t num_stop = 0;
  std::vector<TokenId> stop_token_ids;
  bool include_stop = false, ignore_eos = false, keep_special_tokens = false;
  uint32_t num_choices = 0;  // 0: 1
  std::optional<uint32_t> logprobs, prompt_logprobs;
};

// A span of time whose parts may contradict each other.
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
  size_t num_tool_calls = 0;
};

struct ToolDraft {
  std::string name, description, parameters_json;
};

struct ConversationDraft {
  std::vector<MessageDraft> messages;
  std::vector<ToolDraft> tools;
  size_t num_messages = 0, num_tools = 0;
  std::string template_arguments_json;
  bool add_generation_prompt = true;
};

// A token id of a client stands here as the TokenId with the same 32 bits.
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
