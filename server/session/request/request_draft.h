// The values of a request as a client sent them, not checked and independent of the network
// protocol. An optional value is absent if the client did not set the value.
//
// If the client sent too many elements in a list, the list in the draft may be incomplete. A member
// such as `num_stop` then contains the number of elements that the client sent.
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
  // Pairs of a token id and the value that is added to its logit. Each token id occurs once.
  std::vector<std::pair<uint32_t, float>> logit_bias;
  std::optional<uint64_t> seed;
};

struct OutputDraft {
  // Maximum number of output tokens; 0: all tokens that fit into the context.
  uint32_t max_tokens = 0;
  uint32_t min_tokens = 0;
  std::vector<std::string> stop;
  size_t num_stop = 0;  // number of stop strings that the client sent; 0: stop.size()
  std::vector<TokenId> stop_token_ids;
  bool include_stop = false, ignore_eos = false, keep_special_tokens = false;
  uint32_t num_choices = 0;  // number of choices (outputs) for the prompt; 0 means 1
  std::optional<uint32_t> logprobs, prompt_logprobs;
};

// A duration as a client sent it, not checked: the signs of `seconds` and `nanos` may differ.
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
  std::string role, content, reasoning, name, tool_call_id;
  std::vector<ToolCallDraft> tool_calls;
  // Number of tool calls in this message that the client sent, even if `tool_calls` contains fewer
  // because of a limit. May be 0 if `tool_calls` contains all tool calls.
  size_t num_tool_calls = 0;
};

struct ToolDraft {
  std::string name, description, parameters_json;
};

struct ConversationDraft {
  std::vector<MessageDraft> messages;
  std::vector<ToolDraft> tools;
  // Number of messages and number of tools that the client sent, even if `messages` or `tools`
  // contains fewer because of a limit. May be 0 if `messages` or `tools` contains all of them.
  size_t num_messages = 0, num_tools = 0;
  std::string template_arguments_json;
  bool add_generation_prompt = true;
  // True: the model continues the last message. False: the model begins a new message.
  bool continue_final_message = false;
  // False: tool calls in the output are not parsed and stay ordinary text.
  bool wants_tool_calls = true;
};

// Token ids that a client sent, not checked. Clients send unsigned 32-bit ids, so an id of at least
// 2^31 becomes a negative TokenId.
using TokensDraft = std::vector<TokenId>;

struct RequestDraft {
  std::string label, model;
  std::variant<std::monostate, std::string, TokensDraft, ConversationDraft> prompt;
  // False: a prompt that is a text gets no special tokens, such as a begin token, from the
  // tokenizer. Other prompts ignore the value.
  bool add_special_tokens = true;
  SamplingDraft sampling;
  OutputDraft output;
  CacheDraft cache;
  int32_t priority = 0;
};

}  // namespace incipit
