#include "server/gateway/gateway_request.h"

#include <grpcpp/support/byte_buffer.h>
#include <vllm/grpc/engine/vllm_engine.pb.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "server/rpc/message_bytes.h"
#include "server/rpc/request_reader.h"
#include "server/session/request/checked_request.h"
#include "server/session/request/field_checks.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

namespace api = vllm::grpc::engine;

// Pairs (A, B) that convert the path of a field in a RequestDraft (the server's form of a request)
// to the path in a GenerateRequest: a leading A is replaced by B. For example, "sampling.top_p"
// becomes "sampling_params.top_p". The first pair that matches applies.
constexpr std::pair<std::string_view, std::string_view> kPaths[] = {
    {"sampling.", "sampling_params."},
    {"output.", "sampling_params."},
    {"token_ids.ids", "tokenized.input_ids"},
    {"token_ids", "tokenized.input_ids"},
    {"prompt", "tokenized"},
};

absl::Status Unsupported(std::string_view field) {
  return InvalidField(field, "is not supported by this server");
}

// Returns an error if `message` has a field that the server does not support and that would change
// the output.
absl::Status CheckSupported(const api::GenerateRequest& message) {
  if (message.has_mm_inputs()) return Unsupported("mm_inputs");
  if (message.extra_mm_inputs_size() > 0) return Unsupported("extra_mm_inputs");
  if (message.has_media_refs()) return Unsupported("media_refs");
  if (message.has_kv_transfer_params()) return Unsupported("kv_transfer_params");
  if (message.has_kv_transfer_params_json()) return Unsupported("kv_transfer_params_json");
  if (message.data_parallel_rank() != 0) {
    return InvalidField(
        "data_parallel_rank",
        "is {}; the number must be 0, because this server runs one copy of the model",
        message.data_parallel_rank());
  }
  const api::SamplingParams& params = message.sampling_params();
  if (params.constraint_case() != api::SamplingParams::CONSTRAINT_NOT_SET) {
    const auto* const field =
        api::SamplingParams::descriptor()->FindFieldByNumber(params.constraint_case());
    return Unsupported("sampling_params." + field->name());
  }
  if (params.has_prompt_logprobs()) return Unsupported("sampling_params.prompt_logprobs");
  if (params.has_truncate_prompt_tokens()) {
    return Unsupported("sampling_params.truncate_prompt_tokens");
  }
  return absl::OkStatus();
}

SamplingDraft SamplingOf(const api::SamplingParams& params) {
  SamplingDraft out;
  if (params.has_temperature()) out.temperature = params.temperature();
  // For `top_p` and `repetition_penalty`, 0 means that the client did not set the field. The value
  // 0 is replaced by 1, with which these options have no effect.
  out.top_p = params.top_p() == 0 ? 1 : params.top_p();
  out.top_k = params.top_k();
  out.min_p = params.min_p();
  out.repetition_penalty = params.repetition_penalty() == 0 ? 1 : params.repetition_penalty();
  out.presence_penalty = params.presence_penalty();
  out.frequency_penalty = params.frequency_penalty();
  for (const auto& [id, bias] : params.logit_bias()) {
    out.logit_bias.emplace_back(static_cast<uint32_t>(id), bias);
  }
  if (params.has_seed()) out.seed = static_cast<uint64_t>(int64_t{params.seed()});
  return out;
}

absl::StatusOr<OutputDraft> OutputOf(api::SamplingParams& params, const RequestLimits& limits) {
  OutputDraft out;
  if (params.has_max_tokens() && params.max_tokens() == 0) {
    return InvalidField("sampling_params.max_tokens", "is 0; the value must be at least 1");
  }
  out.max_tokens = params.max_tokens();
  out.min_tokens = params.min_tokens();
  out.num_stop = static_cast<size_t>(params.stop_size());
  for (int i = 0; i < std::min(params.stop_size(), limits.stop_strings_max); ++i) {
    out.stop.push_back(std::move(*params.mutable_stop(i)));
  }
  out.stop_token_ids = TokensOf(params.stop_token_ids());
  out.ignore_eos = params.ignore_eos();
  out.keep_special_tokens = !params.skip_special_tokens();
  out.num_choices = params.n();
  if (params.has_logprobs()) {
    if (params.logprobs() < 0) {
      return InvalidField("sampling_params.logprobs", "is {}; the value must be at least 0",
                          params.logprobs());
    }
    out.logprobs = static_cast<uint32_t>(params.logprobs());
  }
  return out;
}

}  // namespace

const PromptFields& GatewayPromptFields() {
  static constexpr PromptFields kFields = {
      .text = api::GenerateRequest::kTextFieldNumber,
      .token_ids = api::GenerateRequest::kTokenizedFieldNumber,
      .ids = api::TokenizedInput::kInputIdsFieldNumber,
  };
  return kFields;
}

absl::StatusOr<GatewayRequest> ReadGatewayRequest(const grpc::ByteBuffer& bytes,
                                                  const RequestLimits& limits) {
  api::GenerateRequest message;
  INCIPIT_RETURN_IF_ERROR(FromBytes(bytes, message));
  INCIPIT_RETURN_IF_ERROR(
      CheckBytes("request_id", message.request_id().size(), kGatewayNameBytesMax));
  INCIPIT_RETURN_IF_ERROR(CheckSupported(message));
  GatewayRequest out;
  out.streams = message.stream();
  out.name = std::move(*message.mutable_request_id());
  // A client of the gateway chose a part of the request's name. Therefore, the name appears in the
  // server's log only if the name is printable and short enough.
  if (CheckLabel(out.name, limits).ok()) out.draft.label = out.name;
  if (message.has_tokenized()) {
    out.draft.prompt = TokensOf(message.tokenized().input_ids());
  } else if (message.input_case() == api::GenerateRequest::kText) {
    out.draft.prompt = std::move(*message.mutable_text());
  }
  out.draft.sampling = SamplingOf(message.sampling_params());
  INCIPIT_ASSIGN_OR_RETURN(out.draft.output, OutputOf(*message.mutable_sampling_params(), limits));
  return out;
}

absl::Status WithGatewayField(const absl::Status& status) {
  const std::string path = ErrorOf(status).field;
  for (const auto& [ours, theirs] : kPaths) {
    if (!path.starts_with(ours)) continue;
    return WithField(status, fmt::format("{}{}", theirs, path.substr(ours.size())));
  }
  return status;
}

}  // namespace incipit
