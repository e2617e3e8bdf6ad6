#include "server/gateway/gateway_output.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "server/rpc/message_bytes.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

namespace api = vllm::grpc::engine;

void Append(const ScoredPosition& position, api::OutputLogProbs& out) {
  out.add_token_logprobs(position.token.logprob);
  out.add_token_ids(static_cast<uint32_t>(position.token.token));
  api::TopLogProbs& top = *out.add_top_logprobs();
  for (const ScoredToken& token : position.top) {
    top.add_values(token.logprob);
    top.add_token_ids(static_cast<uint32_t>(token.token));
  }
}

// Appends the tokens of `delta` to `ids`, and the log probabilities of these tokens to `message`.
template <typename Ids, typename Message>
void AppendTokens(const OutputDelta& delta, Ids& ids, Message& message) {
  ids.Reserve(ids.size() + static_cast<int>(delta.tokens.size()));
  for (const TokenId token : delta.tokens) ids.Add(static_cast<uint32_t>(token));
  for (const ScoredPosition& position : delta.logprobs) {
    Append(position, *message.mutable_output_logprobs());
  }
}

void SetEnd(const OutputDelta& delta, api::GenerateComplete& out) {
  out.set_finish_reason(*delta.finish == FinishReason::kLength ? "length" : "stop");
  if (delta.stop_string) {
    out.set_matched_stop_str(*delta.stop_string);
  } else if (delta.stop_token) {
    out.set_matched_token_id(static_cast<uint32_t>(*delta.stop_token));
  }
}

int64_t KeptBytes(const OutputDelta& delta) {
  size_t bytes = sizeof(TokenId) * delta.tokens.size();
  for (const ScoredPosition& position : delta.logprobs) bytes += EstimatedBytes(position);
  return static_cast<int64_t>(bytes);
}

}  // namespace

void GatewayOutput::Discard() {
  choices_.clear();
  calls_.num_kept_bytes -= std::exchange(num_kept_bytes_, 0);
}

void GatewayOutput::Begin(const GatewayRequest& request, const std::shared_ptr<Session>& session) {
  streams_ = request.streams;
  if (!request.name.empty()) entry_ = calls_.aborts.Add(request.name, session);
}

absl::Status GatewayOutput::Write(OutputPart part, const std::string& /*label*/,
                                  std::vector<grpc::ByteBuffer>& messages) {
  if (part.prompt) prompt_ = *part.prompt;
  for (OutputDelta& delta : part.deltas) {
    const auto index = static_cast<size_t>(delta.choice);
    if (index >= choices_.size()) choices_.resize(index + 1);
    Complete& complete = choices_[index];
    complete.set_completion_tokens(complete.completion_tokens() +
                                   static_cast<uint32_t>(delta.tokens.size()));
    if (delta.finish) SetEnd(delta, complete);
    if (!streams_) {
      INCIPIT_RETURN_IF_ERROR(Keep(delta));
      continue;
    }
    if (!delta.tokens.empty()) AppendChunk(delta, messages);
    if (delta.finish) AppendComplete(index, messages);
  }
  if (part.usage && !streams_) {
    AppendAll(messages);
    Discard();
  }
  return absl::OkStatus();
}

absl::Status GatewayOutput::Keep(const OutputDelta& delta) {
  Complete& complete = choices_[static_cast<size_t>(delta.choice)];
  AppendTokens(delta, *complete.mutable_output_ids(), complete);
  const int64_t num_bytes = KeptBytes(delta);
  num_kept_bytes_ += num_bytes;
  if ((calls_.num_kept_bytes += num_bytes) <= kept_bytes_max_) return absl::OkStatus();
  Discard();
  return WithBound(Refuse(Reason::kWriteStalled,
                          "the responses that the server keeps in memory are larger than "
                          "output-queue-bytes-max; use a stream"),
                   kept_bytes_max_);
}

void GatewayOutput::AppendChunk(OutputDelta& delta, std::vector<grpc::ByteBuffer>& messages) const {
  api::GenerateResponse response;
  api::GenerateStreamChunk& chunk = *response.mutable_chunk();
  AppendTokens(delta, *chunk.mutable_token_ids(), chunk);
  chunk.set_prompt_tokens(static_cast<uint32_t>(prompt_.num_tokens));
  chunk.set_completion_tokens(choices_[static_cast<size_t>(delta.choice)].completion_tokens());
  chunk.set_cached_tokens(static_cast<uint32_t>(prompt_.num_cached_tokens));
  chunk.set_index(static_cast<uint32_t>(delta.choice));
  ToBytes(response, messages.emplace_back());
}

void GatewayOutput::AppendAll(std::vector<grpc::ByteBuffer>& messages) const {
  const auto has_failed = [](const Complete& choice) { return choice.finish_reason().empty(); };
  if (std::ranges::any_of(choices_, has_failed)) return;
  for (size_t i = 0; i < choices_.size(); ++i) AppendComplete(i, messages);
}

void GatewayOutput::AppendComplete(size_t choice, std::vector<grpc::ByteBuffer>& messages) const {
  api::GenerateResponse response;
  Complete& complete = *response.mutable_complete();
  complete = choices_[choice];
  complete.set_prompt_tokens(static_cast<uint32_t>(prompt_.num_tokens));
  complete.set_cached_tokens(static_cast<uint32_t>(prompt_.num_cached_tokens));
  complete.set_index(static_cast<uint32_t>(choice));
  ToBytes(response, messages.emplace_back());
}

grpc::Status GatewayOutput::StatusOf(const absl::Status& status) const {
  return ToGrpcStatus(status.ok() ? status : WithGatewayField(status));
}

}  // namespace incipit
