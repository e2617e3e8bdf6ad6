#include "server/http/openai_request.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "server/http/openai_fields.h"
#include "server/http/openai_messages.h"
#include "server/session/request/bounded_json.h"
#include "server/session/request/field_checks.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
// Default value of the field max_tokens in completion requests, as in OpenAI's API.
constexpr uint32_t kCompletionTokens = 16;
// Number of levels (arrays and objects) by which a request body may be nested deeper than
// BoundedJsonReader::kDepthMax. kDepthMax is the limit for an object inside the body, such as the
// schema of a tool.
constexpr int kBodyDepth = 8;

// Request fields that the server refuses because the server does not support the fields. If the
// server ignored one of these fields, the output would not be what the client requested.
constexpr std::string_view kUnsupported[] = {"structured_outputs",
                                             "guided_json",
                                             "guided_regex",
                                             "guided_choice",
                                             "guided_grammar",
                                             "allowed_token_ids",
                                             "bad_words",
                                             "prompt_embeds",
                                             "suffix",
                                             "functions",
                                             "function_call",
                                             "chat_template",
                                             "documents",
                                             "use_beam_search",
                                             "audio",
                                             "truncate_prompt_tokens",
                                             "logits_processors"};

// Chat request fields that the server refuses if their value is true.
constexpr std::string_view kUnsupportedInChats[] = {"echo", "add_special_tokens"};

// Fields of a request body that can be long lists of token ids. The maximum number of JSON values
// in a body does not apply to these ids.
constexpr std::string_view kTokenLists[] = {"prompt", "tokens"};

// Returns the maximum number of JSON values in a request body, without token ids. The maximum is
// larger than `json_values_max`, because `json_values_max` does not count all values of a body. For
// example, `json_values_max` does not count the fields of messages.
int64_t BodyValuesMax(const RequestLimits& limits) {
  constexpr int64_t kValuesOfMessage = 16, kValuesOfFields = 1024;
  return limits.json_values_max + limits.json_values_max / 5 +
         kValuesOfMessage * (int64_t{limits.messages_max} + limits.tools_max) +
         limits.logit_bias_max + limits.stop_strings_max + limits.stop_tokens_max + kValuesOfFields;
}

absl::StatusOr<Json> ParseBody(std::string_view body, const OpenAiLimits& limits) {
  BoundedJsonReader reader(limits.body_bytes_max, BodyValuesMax(limits.request),
                           BoundedJsonReader::kDepthMax + kBodyDepth, kTokenLists);
  return reader.Read([] { return std::string("body"); }, body);
}

// Returns an error if a field in `names` is in the request. A field with the value null or false,
// an empty string or an empty array has no effect and counts as absent.
absl::Status CheckAbsent(const OpenAiFields& fields, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    const Json* const value = fields.Find(name);
    if (value == nullptr || *value == false ||
        (value->is_string() && value->get_ref<const std::string&>().empty()) ||
        (value->is_array() && value->empty())) {
      continue;
    }
    return fields.Unsupported(name, "is not supported");
  }
  return absl::OkStatus();
}

absl::Status CheckSupported(const OpenAiFields& fields) {
  INCIPIT_RETURN_IF_ERROR(CheckAbsent(fields, kUnsupported));
  const Json* const format = fields.Find("response_format");
  if (format != nullptr && (!format->is_object() || format->value("type", Json()) != "text")) {
    return fields.Unsupported("response_format", "must have the type \"text\"");
  }
  const Json* const choice = fields.Find("tool_choice");
  if (choice != nullptr && *choice != "auto" && *choice != "none") {
    return fields.Unsupported("tool_choice", "must be \"auto\" or \"none\"");
  }
  return absl::OkStatus();
}

// Reads the number in the field `name` into `target`. Does not change `target` if the field is
// absent.
template <typename T>
absl::Status ReadNumber(const OpenAiFields& fields, std::string_view name, T& target) {
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<double> value, fields.Number(name));
  constexpr double kMax = std::numeric_limits<float>::max();
  if (value) target = static_cast<float>(std::clamp(*value, -kMax, kMax));
  return absl::OkStatus();
}

// Returns the token id that the text `key` contains as a decimal number, or nullopt if `key` is not
// a token id. `key` is a key in the field logit_bias.
std::optional<uint32_t> TokenOf(const std::string& key) {
  uint32_t id = 0;
  if (!absl::SimpleAtoi(key, &id)) return std::nullopt;
  return id;
}

absl::Status ReadLogitBias(const OpenAiFields& fields, const OpenAiLimits& limits,
                           SamplingDraft& out) {
  constexpr std::string_view kField = "logit_bias";
  const Json* const biases = fields.Find(kField);
  if (biases == nullptr) return absl::OkStatus();
  if (!biases->is_object()) return InvalidField(kField, "must be a JSON object");
  INCIPIT_RETURN_IF_ERROR(
      CheckCount(kField, biases->size(), "entries", limits.request.logit_bias_max));
  for (const auto& [key, value] : biases->items()) {
    const std::optional<uint32_t> token = TokenOf(key);
    if (!token) return InvalidField(kField, "has a key that is not a token id");
    for (const auto& [other, bias] : out.logit_bias) {
      if (other == *token) return InvalidField(kField, "has the token id {} twice", *token);
    }
    if (!value.is_number()) return InvalidField(kField, "has a value that is not a number");
    out.logit_bias.emplace_back(*token,
                                static_cast<float>(std::clamp(value.get<double>(), -1e30, 1e30)));
  }
  return absl::OkStatus();
}

absl::Status ReadSampling(const OpenAiFields& fields, const OpenAiLimits& limits,
                          SamplingDraft& out) {
  INCIPIT_RETURN_IF_ERROR(ReadNumber(fields, "temperature", out.temperature));
  INCIPIT_RETURN_IF_ERROR(ReadNumber(fields, "top_p", out.top_p));
  INCIPIT_RETURN_IF_ERROR(ReadNumber(fields, "min_p", out.min_p));
  INCIPIT_RETURN_IF_ERROR(ReadNumber(fields, "repetition_penalty", out.repetition_penalty));
  INCIPIT_RETURN_IF_ERROR(ReadNumber(fields, "presence_penalty", out.presence_penalty));
  INCIPIT_RETURN_IF_ERROR(ReadNumber(fields, "frequency_penalty", out.frequency_penalty));
  INCIPIT_ASSIGN_OR_RETURN(const auto top_k, fields.Integer("top_k", -1, kInt32Max));
  if (top_k) out.top_k = *top_k == -1 ? 0 : static_cast<uint32_t>(*top_k);
  if (const Json* const seed = fields.Find("seed"); seed != nullptr) {
    if (!seed->is_number_integer()) return InvalidField("seed", "must be an integer of 64 bits");
    out.seed = seed->is_number_unsigned() ? seed->get<uint64_t>()
                                          : static_cast<uint64_t>(seed->get<int64_t>());
  }
  return ReadLogitBias(fields, limits, out);
}

absl::Status ReadStop(const OpenAiFields& fields, const OpenAiLimits& limits, OutputDraft& out) {
  const Json* const stop = fields.Find("stop");
  if (stop != nullptr && stop->is_string()) {
    // An empty string in the field "stop" means that the request has no stop string, as in vLLM.
    if (const auto text = stop->get<std::string>(); !text.empty()) out.stop.push_back(text);
  } else if (stop != nullptr) {
    if (!stop->is_array()) return InvalidField("stop", "must be a string or an array of strings");
    INCIPIT_RETURN_IF_ERROR(
        CheckCount("stop", stop->size(), "strings", limits.request.stop_strings_max));
    for (const Json& text : *stop) {
      if (!text.is_string()) return InvalidField("stop", "must be a string or an array of strings");
      out.stop.push_back(text.get<std::string>());
    }
  }
  const Json* const ids = fields.Find("stop_token_ids");
  if (ids == nullptr) return absl::OkStatus();
  if (!ids->is_array()) return InvalidField("stop_token_ids", "must be an array of token ids");
  INCIPIT_RETURN_IF_ERROR(
      CheckCount("stop_token_ids", ids->size(), "ids", limits.request.stop_tokens_max));
  for (const Json& id : *ids) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kInt32Max) {
      return InvalidField("stop_token_ids", "must be an array of token ids");
    }
    out.stop_token_ids.push_back(static_cast<TokenId>(id.get<uint64_t>()));
  }
  return absl::OkStatus();
}

absl::Status ReadOutput(const OpenAiFields& fields, const OpenAiLimits& limits,
                        RequestDraft& draft) {
  OutputDraft& out = draft.output;
  INCIPIT_ASSIGN_OR_RETURN(const auto n, fields.Integer("n", 1, limits.request.choices_max));
  out.num_choices = static_cast<uint32_t>(n.value_or(1));
  INCIPIT_ASSIGN_OR_RETURN(const auto best_of, fields.Integer("best_of", 1, kInt32Max));
  if (best_of && *best_of != out.num_choices) {
    return fields.Unsupported("best_of", "must be equal to n");
  }
  INCIPIT_ASSIGN_OR_RETURN(const auto min_tokens, fields.Integer("min_tokens", 0, kInt32Max));
  out.min_tokens = static_cast<uint32_t>(min_tokens.value_or(0));
  INCIPIT_ASSIGN_OR_RETURN(const auto ignore_eos, fields.Bool("ignore_eos"));
  out.ignore_eos = ignore_eos.value_or(false);
  INCIPIT_ASSIGN_OR_RETURN(const auto include_stop, fields.Bool("include_stop_str_in_output"));
  out.include_stop = include_stop.value_or(false);
  INCIPIT_ASSIGN_OR_RETURN(const auto skip_special, fields.Bool("skip_special_tokens"));
  out.keep_special_tokens = !skip_special.value_or(true);
  return ReadStop(fields, limits, out);
}

// Reads the fields that a completion request and a chat request have in common.
absl::StatusOr<RequestDraft> ReadCommon(const OpenAiFields& fields, const OpenAiLimits& limits,
                                        OpenAiFormat& format) {
  RequestDraft draft;
  INCIPIT_RETURN_IF_ERROR(CheckSupported(fields));
  INCIPIT_ASSIGN_OR_RETURN(auto model, fields.Text("model"));
  draft.model = std::move(model).value_or("");
  INCIPIT_ASSIGN_OR_RETURN(auto label, fields.Text("request_id"));
  draft.label = std::move(label).value_or("");
  INCIPIT_RETURN_IF_ERROR(ReadSampling(fields, limits, draft.sampling));
  INCIPIT_RETURN_IF_ERROR(ReadOutput(fields, limits, draft));
  INCIPIT_ASSIGN_OR_RETURN(auto salt, fields.Text("cache_salt"));
  draft.cache.salt = std::move(salt).value_or("");
  // In vLLM's API, a request with a lower priority number is served first. In the engine, a request
  // with a higher priority number is served first. Therefore, the server negates the number.
  INCIPIT_ASSIGN_OR_RETURN(const auto priority, fields.Integer("priority", -kInt32Max, kInt32Max));
  draft.priority = -static_cast<int32_t>(priority.value_or(0));
  INCIPIT_ASSIGN_OR_RETURN(const auto streams, fields.Bool("stream"));
  format.streams = streams.value_or(false);
  INCIPIT_ASSIGN_OR_RETURN(const auto token_ids, fields.Bool("return_token_ids"));
  format.return_token_ids = token_ids.value_or(false);
  format.keeps_special_tokens = draft.output.keep_special_tokens;
  format.num_choices = static_cast<int32_t>(draft.output.num_choices);
  const Json* const options = fields.Find("stream_options");
  if (options == nullptr) return draft;
  if (!format.streams) return InvalidField("stream_options", "is allowed only if stream is true");
  INCIPIT_ASSIGN_OR_RETURN(const auto stream_fields, OpenAiFields::Of(*options, "stream_options"));
  INCIPIT_ASSIGN_OR_RETURN(const auto include_usage, stream_fields.Bool("include_usage"));
  format.include_usage = include_usage.value_or(false);
  return draft;
}

constexpr std::string_view kPromptTypes =
    "must be a prompt or an array of prompts; a prompt is a string or an array of token ids";

absl::StatusOr<TokensDraft> TokensFrom(const Json& ids, std::string_view field,
                                       std::string_view types) {
  TokensDraft out;
  out.reserve(ids.size());
  for (const Json& id : ids) {
    if (!id.is_number_unsigned()) return FieldViolation(field, types);
    // Replaces an id that does not fit into 32 bits by -1, because CheckDraft refuses negative ids.
    const uint64_t value = id.get<uint64_t>();
    out.push_back(value > static_cast<uint64_t>(kInt32Max) ? -1 : static_cast<TokenId>(value));
  }
  return out;
}

// Returns one request draft for each prompt in the field "prompt": a copy of `common` with the
// prompt.
absl::StatusOr<std::vector<RequestDraft>> ReadPrompts(const OpenAiFields& fields,
                                                      const OpenAiLimits& limits,
                                                      RequestDraft common) {
  const Json* const prompt = fields.Find("prompt");
  if (prompt == nullptr) return InvalidField("prompt", "is missing");
  const auto with = [&](decltype(RequestDraft::prompt) one) {
    RequestDraft draft = common;
    draft.prompt = std::move(one);
    return draft;
  };
  std::vector<RequestDraft> drafts;
  if (prompt->is_string()) {
    drafts.push_back(with(prompt->get<std::string>()));
    return drafts;
  }
  if (!prompt->is_array() || prompt->empty()) {
    return FieldViolation("prompt", kPromptTypes);
  }
  if (!prompt->front().is_string() && !prompt->front().is_array()) {
    INCIPIT_ASSIGN_OR_RETURN(TokensDraft ids, TokensFrom(*prompt, "prompt", kPromptTypes));
    drafts.push_back(with(std::move(ids)));
    return drafts;
  }
  INCIPIT_RETURN_IF_ERROR(CheckCount("prompt", prompt->size(), "prompts", limits.prompts_max));
  for (size_t i = 0; i < prompt->size(); ++i) {
    const Json& one = (*prompt)[i];
    if (one.is_string()) {
      drafts.push_back(with(one.get<std::string>()));
    } else if (one.is_array()) {
      INCIPIT_ASSIGN_OR_RETURN(TokensDraft ids,
                               TokensFrom(one, fmt::format("prompt[{}]", i), kPromptTypes));
      drafts.push_back(with(std::move(ids)));
    } else {
      return FieldViolation("prompt", kPromptTypes);
    }
  }
  return drafts;
}

absl::Status ReadMaxTokens(const OpenAiFields& fields, std::string_view name, OutputDraft& out) {
  INCIPIT_ASSIGN_OR_RETURN(const auto max_tokens, fields.Integer(name, 1, kInt32Max));
  if (max_tokens) out.max_tokens = static_cast<uint32_t>(*max_tokens);
  return absl::OkStatus();
}

// Reads the fields "echo" and "max_tokens" of a completion request. If "echo" is true and
// "max_tokens" is 0, the response contains only the prompt. The engine then still samples one
// token, which the response does not contain.
absl::Status ReadEcho(const OpenAiFields& fields, OpenAiFormat& format, OutputDraft& out) {
  INCIPIT_ASSIGN_OR_RETURN(const auto echo, fields.Bool("echo"));
  format.echo = echo.value_or(false);
  const Json* const max_tokens = fields.Find("max_tokens");
  format.echo_only = format.echo && max_tokens != nullptr && *max_tokens == 0;
  out.max_tokens = format.echo_only ? 1 : kCompletionTokens;
  return format.echo_only ? absl::OkStatus() : ReadMaxTokens(fields, "max_tokens", out);
}

}  // namespace

absl::StatusOr<OpenAiRequest> ReadCompletionRequest(std::string_view body,
                                                    const OpenAiLimits& limits) {
  INCIPIT_ASSIGN_OR_RETURN(const Json json, ParseBody(body, limits));
  const OpenAiFields fields(json);
  OpenAiRequest out;
  INCIPIT_ASSIGN_OR_RETURN(RequestDraft draft, ReadCommon(fields, limits, out.format));
  INCIPIT_RETURN_IF_ERROR(ReadEcho(fields, out.format, draft.output));
  INCIPIT_ASSIGN_OR_RETURN(const auto adds, fields.Bool("add_special_tokens"));
  draft.add_special_tokens = adds.value_or(true);
  INCIPIT_ASSIGN_OR_RETURN(const auto logprobs,
                           fields.Integer("logprobs", 0, limits.request.logprobs_max));
  if (logprobs) {
    out.format.logprobs = true;
    draft.output.logprobs = static_cast<uint32_t>(*logprobs);
    if (out.format.echo) draft.output.prompt_logprobs = draft.output.logprobs;
  }
  INCIPIT_ASSIGN_OR_RETURN(out.drafts, ReadPrompts(fields, limits, std::move(draft)));
  return out;
}

absl::StatusOr<OpenAiRequest> ReadChatRequest(std::string_view body, const OpenAiLimits& limits) {
  INCIPIT_ASSIGN_OR_RETURN(const Json json, ParseBody(body, limits));
  const OpenAiFields fields(json);
  OpenAiRequest out;
  out.format.is_chat = true;
  INCIPIT_ASSIGN_OR_RETURN(RequestDraft draft, ReadCommon(fields, limits, out.format));
  INCIPIT_RETURN_IF_ERROR(CheckAbsent(fields, kUnsupportedInChats));
  INCIPIT_RETURN_IF_ERROR(ReadMaxTokens(fields, "max_tokens", draft.output));
  INCIPIT_RETURN_IF_ERROR(ReadMaxTokens(fields, "max_completion_tokens", draft.output));
  INCIPIT_ASSIGN_OR_RETURN(const auto logprobs, fields.Bool("logprobs"));
  INCIPIT_ASSIGN_OR_RETURN(const auto top,
                           fields.Integer("top_logprobs", 0, limits.request.logprobs_max));
  // Some clients always send the default value of vLLM, which is 0.
  if (top.value_or(0) > 0 && !logprobs.value_or(false)) {
    return InvalidField("top_logprobs", "is allowed only if logprobs is true");
  }
  out.format.logprobs = logprobs.value_or(false);
  if (out.format.logprobs) draft.output.logprobs = static_cast<uint32_t>(top.value_or(0));
  INCIPIT_ASSIGN_OR_RETURN(draft.prompt, ReadConversation(fields, limits.request));
  out.drafts.push_back(std::move(draft));
  return out;
}

absl::StatusOr<RequestDraft> ReadTokenizeRequest(std::string_view body,
                                                 const OpenAiLimits& limits) {
  INCIPIT_ASSIGN_OR_RETURN(const Json json, ParseBody(body, limits));
  const OpenAiFields fields(json);
  RequestDraft out;
  INCIPIT_ASSIGN_OR_RETURN(auto model, fields.Text("model"));
  out.model = std::move(model).value_or("");
  INCIPIT_ASSIGN_OR_RETURN(const auto adds, fields.Bool("add_special_tokens"));
  out.add_special_tokens = adds.value_or(true);
  INCIPIT_ASSIGN_OR_RETURN(auto prompt, fields.Text("prompt"));
  if (prompt) {
    out.prompt = *std::move(prompt);
  } else {
    INCIPIT_ASSIGN_OR_RETURN(out.prompt, ReadConversation(fields, limits.request));
  }
  return out;
}

absl::StatusOr<DetokenizeRequest> ReadDetokenizeRequest(std::string_view body,
                                                        const OpenAiLimits& limits) {
  INCIPIT_ASSIGN_OR_RETURN(const Json json, ParseBody(body, limits));
  const OpenAiFields fields(json);
  DetokenizeRequest out;
  INCIPIT_ASSIGN_OR_RETURN(auto model, fields.Text("model"));
  out.model = std::move(model).value_or("");
  const Json* const ids = fields.Find("tokens");
  if (ids == nullptr || !ids->is_array()) {
    return InvalidField("tokens", "must be an array of token ids");
  }
  INCIPIT_ASSIGN_OR_RETURN(out.tokens, TokensFrom(*ids, "tokens", "must be an array of token ids"));
  return out;
}

}  // namespace incipit
