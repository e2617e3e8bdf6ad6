// A message from outside becomes a request that holds no bad value, or INVALID_ARGUMENT naming the
// field, the value and the bound. Pure functions: everything behind them may trust what it gets.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "engine/engine.h"
#include "server/session/request_limits.h"
#include "transformer/config.h"

namespace incipit::v1 {
class ChatRequest;
class DetokenizeRequest;
class GenerateRequest;
class GetLoadRequest;
}  // namespace incipit::v1

namespace incipit {

// What requests are checked against.
struct ServedModel {
  std::string name;
  int32_t vocab_size = 0;  // the width of the logits: token ids are below it
  int32_t max_model_len = 0;
  int64_t cache_tokens = 0;  // that the KV cache holds
  bool has_tokenizer = false;
  bool has_chat_template = false;
  std::vector<TokenId> eos_ids;
  GenerationDefaults defaults;  // do_sample is not looked at: temperature alone decides
};

// How the tokens of an answer become what the client gets.
struct AnswerOptions {
  std::vector<std::string> stop;  // none is empty
  bool include_stop = false;
  bool keep_special_tokens = false;
  bool logprobs = false;
  int32_t tokens_min = 0;  // stop strings are not looked for before
};

// What a chat template is rendered with: messages, tools, arguments.
struct Conversation {
  nlohmann::ordered_json variables;
};

struct CheckedRequest {
  std::string label;  // the client's request_id; empty: the server draws one
  // Text, token ids (each of them a token of the model, and not empty), or messages.
  std::variant<std::string, std::vector<TokenId>, Conversation> prompt;
  // All but id, prompt, arrival, deadline, namespace and tenant. answer_tokens_max is what was
  // asked for (0: the rest of the context) until SetPrompt; the seed is drawn by the caller unless
  // has_seed.
  Request request;
  bool has_seed = false;
  AnswerOptions answer;
  std::string cache_salt;
};

absl::StatusOr<CheckedRequest> CheckGenerateRequest(const v1::GenerateRequest& message,
                                                    const ServedModel& model,
                                                    const RequestLimits& limits);
absl::StatusOr<CheckedRequest> CheckChatRequest(const v1::ChatRequest& message,
                                                const ServedModel& model,
                                                const RequestLimits& limits);

// Takes the prompt's token ids, from wherever, and checks what depends on their number: the room
// for the answer, min_tokens, the size of prompt_logprobs. `field` names where they came from.
absl::Status SetPrompt(std::vector<TokenId> prompt, std::string_view field,
                       const ServedModel& model, const RequestLimits& limits,
                       CheckedRequest& request);

// The token ids that a GetLoadRequest asks about, as a request of one token more. REQUIRES: it has
// some.
absl::StatusOr<CheckedRequest> CheckLoadPrompt(const v1::GetLoadRequest& message,
                                               const ServedModel& model,
                                               const RequestLimits& limits);

// The ids of a DetokenizeRequest.
absl::StatusOr<std::vector<TokenId>> CheckDetokenizeRequest(const v1::DetokenizeRequest& message,
                                                            const ServedModel& model);

// The value of x-tenant-id; letters, digits, '.', '_', '-'.
absl::Status CheckTenant(std::string_view tenant, const RequestLimits& limits);

}  // namespace incipit
