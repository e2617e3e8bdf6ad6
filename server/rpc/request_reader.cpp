#include "server/rpc/request_reader.h"

#include <grpcpp/support/byte_buffer.h>
#include <incipit/v1/inference.pb.h>

#include <algorithm>
#include <utility>

#include "server/rpc/message_bytes.h"

namespace incipit {
namespace {

SamplingDraft SamplingOf(const v1::SamplingOptions& options) {
  SamplingDraft out;
  if (options.has_temperature()) out.temperature = options.temperature();
  if (options.has_top_p()) out.top_p = options.top_p();
  if (options.has_top_k()) out.top_k = options.top_k();
  if (options.has_repetition_penalty()) out.repetition_penalty = options.repetition_penalty();
  out.min_p = options.min_p();
  out.presence_penalty = options.presence_penalty();
  out.frequency_penalty = options.frequency_penalty();
  out.logit_bias.assign(options.logit_bias().begin(), options.logit_bias().end());
  if (options.has_seed()) out.seed = static_cast<uint64_t>(options.seed());
  return out;
}

OutputDraft OutputOf(v1::OutputOptions& options, const RequestLimits& limits) {
  OutputDraft out;
  out.max_tokens = options.max_tokens();
  out.min_tokens = options.min_tokens();
  out.num_stop = static_cast<size_t>(options.stop_size());
  for (int i = 0; i < std::min(options.stop_size(), limits.stop_strings_max); ++i) {
    out.stop.push_back(std::move(*options.mutable_stop(i)));
  }
  out.stop_token_ids = TokensOf(options.stop_token_ids());
  out.include_stop = options.include_stop();
  out.ignore_eos = options.ignore_eos();
  out.keep_special_tokens = options.keep_special_tokens();
  out.num_choices = options.n();
  if (options.has_logprobs()) out.logprobs = options.logprobs();
  if (options.has_prompt_logprobs()) out.prompt_logprobs = options.prompt_logprobs();
  return out;
}

RawSpan SpanOf(const google::protobuf::Duration& duration) {
  return {.seconds = duration.seconds(), .nanos = duration.nanos()};
}

CacheDraft CacheOf(v1::CacheOptions& options) {
  CacheDraft out;
  out.salt = std::move(*options.mutable_salt());
  out.skip_read = options.skip_read();
  const v1::CacheRetention& retention = options.retention();
  if (retention.has_priority()) out.retention.priority = retention.priority();
  if (retention.has_ttl()) out.retention.time_to_live = SpanOf(retention.ttl());
  if (retention.has_pin()) out.retention.pin = SpanOf(retention.pin());
  return out;
}

MessageDraft MessageOf(v1::ChatMessage& message) {
  MessageDraft out;
  out.role = std::move(*message.mutable_role());
  out.content = std::move(*message.mutable_content());
  out.reasoning = std::move(*message.mutable_reasoning());
  out.name = std::move(*message.mutable_name());
  out.tool_call_id = std::move(*message.mutable_tool_call_id());
  out.num_tool_calls = static_cast<size_t>(message.tool_calls_size());
  for (int i = 0; i < std::min(message.tool_calls_size(), kToolCallsMax); ++i) {
    v1::ToolCall& call = *message.mutable_tool_calls(i);
    out.tool_calls.push_back({.id = std::move(*call.mutable_id()),
                              .name = std::move(*call.mutable_name()),
                              .arguments_json = std::move(*call.mutable_arguments_json())});
  }
  return out;
}

// Returns a RequestDraft (a request that is not checked yet) with the fields that GenerateRequest
// and ChatRequest have in common.
template <typename Message>
RequestDraft CommonDraft(Message& message, const RequestLimits& limits) {
  RequestDraft out;
  out.label = std::move(*message.mutable_request_id());
  out.model = std::move(*message.mutable_model());
  out.sampling = SamplingOf(message.sampling());
  out.output = OutputOf(*message.mutable_output(), limits);
  out.cache = CacheOf(*message.mutable_cache());
  out.priority = message.priority();
  return out;
}

}  // namespace

TokensDraft TokensOf(const google::protobuf::RepeatedField<uint32_t>& ids) {
  TokensDraft out;
  out.reserve(static_cast<size_t>(ids.size()));
  for (const uint32_t id : ids) out.push_back(static_cast<TokenId>(id));
  return out;
}

RequestDraft DraftOf(v1::GenerateRequest&& message, const RequestLimits& limits) {
  RequestDraft out = CommonDraft(message, limits);
  switch (message.prompt_case()) {
    case v1::GenerateRequest::kText:
      out.prompt = std::move(*message.mutable_text());
      break;
    case v1::GenerateRequest::kTokenIds:
      out.prompt = TokensOf(message.token_ids().ids());
      break;
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return out;
}

RequestDraft DraftOf(v1::ChatRequest&& message, const RequestLimits& limits) {
  RequestDraft out = CommonDraft(message, limits);
  ConversationDraft conversation;
  conversation.num_messages = static_cast<size_t>(message.messages_size());
  for (int i = 0; i < std::min(message.messages_size(), limits.messages_max); ++i) {
    conversation.messages.push_back(MessageOf(*message.mutable_messages(i)));
  }
  conversation.num_tools = static_cast<size_t>(message.tools_size());
  for (int i = 0; i < std::min(message.tools_size(), limits.tools_max); ++i) {
    v1::Tool& tool = *message.mutable_tools(i);
    conversation.tools.push_back({.name = std::move(*tool.mutable_name()),
                                  .description = std::move(*tool.mutable_description()),
                                  .parameters_json = std::move(*tool.mutable_parameters_json())});
  }
  conversation.template_arguments_json = std::move(*message.mutable_template_arguments_json());
  if (message.has_add_generation_prompt()) {
    conversation.add_generation_prompt = message.add_generation_prompt();
  }
  out.prompt = std::move(conversation);
  return out;
}

template <typename Message>
absl::StatusOr<RequestDraft> ReadDraft(const grpc::ByteBuffer& bytes, const RequestLimits& limits) {
  Message message;
  INCIPIT_RETURN_IF_ERROR(FromBytes(bytes, message));
  return DraftOf(std::move(message), limits);
}

template absl::StatusOr<RequestDraft> ReadDraft<v1::GenerateRequest>(const grpc::ByteBuffer&,
                                                                     const RequestLimits&);
template absl::StatusOr<RequestDraft> ReadDraft<v1::ChatRequest>(const grpc::ByteBuffer&,
                                                                 const RequestLimits&);

}  // namespace incipit
