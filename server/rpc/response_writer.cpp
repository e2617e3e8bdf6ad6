#include "server/rpc/response_writer.h"

#include <incipit/v1/inference.pb.h>

#include <utility>

#include "base/check.h"
#include "server/rpc/message_bytes.h"

namespace incipit {
namespace {

v1::CacheMissReason WireReason(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      return v1::CACHE_MISS_REASON_NONE;
    case MissReason::kUnseen:
      return v1::CACHE_MISS_REASON_UNSEEN;
    case MissReason::kEvicted:
      return v1::CACHE_MISS_REASON_EVICTED;
    case MissReason::kOtherNamespace:
      return v1::CACHE_MISS_REASON_OTHER_NAMESPACE;
    case MissReason::kLoadFailed:
      return v1::CACHE_MISS_REASON_LOAD_FAILED;
  }
  return v1::CACHE_MISS_REASON_UNSPECIFIED;
}

void Fill(const Miss& miss, v1::CacheMiss& out) {
  out.set_reason(WireReason(miss.reason));
  if (miss.reason == MissReason::kNone) return;
  out.set_first_missing_block(static_cast<uint32_t>(miss.block));
  out.set_first_differing_token(static_cast<uint32_t>(miss.differing_token));
  if (miss.reason == MissReason::kEvicted) {
    out.set_evicted_seconds_ago(ToSeconds(miss.evicted_ago));
  }
}

void Fill(ScoredToken&& token, v1::TokenLogprob& out) {
  out.set_token_id(static_cast<uint32_t>(token.token));
  out.set_logprob(token.logprob);
  out.set_text(std::move(token.bytes));
}

void Fill(ScoredPosition&& position, v1::PositionLogprobs& out) {
  Fill(std::move(position.token), *out.mutable_token());
  out.set_rank(static_cast<uint32_t>(position.rank));
  for (ScoredToken& token : position.top) Fill(std::move(token), *out.add_top());
}

v1::FinishReason WireFinish(FinishReason finish) {
  switch (finish) {
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kCancelled:
    case FinishReason::kDeadline:
    case FinishReason::kTooLate:
    case FinishReason::kError:
      // The protobuf enum FinishReason has no value for a cancellation, a missed deadline or an
      // error. The call ends with an error status instead.
      break;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

void Fill(OutputDelta&& delta, v1::Delta& out) {
  out.set_choice(static_cast<uint32_t>(delta.choice));
  out.set_text(std::move(delta.text));
  out.set_reasoning(std::move(delta.reasoning));
  for (OutputToolCall& call : delta.tool_calls) {
    v1::ToolCall& tool_call = *out.add_tool_calls();
    tool_call.set_id(std::move(call.id));
    tool_call.set_name(std::move(call.name));
    tool_call.set_arguments_json(std::move(call.arguments_json));
  }
  out.mutable_token_ids()->Reserve(static_cast<int>(delta.tokens.size()));
  for (const TokenId token : delta.tokens) out.add_token_ids(static_cast<uint32_t>(token));
  for (ScoredPosition& position : delta.logprobs) Fill(std::move(position), *out.add_logprobs());
  if (delta.finish) out.set_finish_reason(WireFinish(*delta.finish));
  if (delta.stop_string) out.set_stop_string(*std::move(delta.stop_string));
  if (delta.stop_token) out.set_stop_token_id(static_cast<uint32_t>(*delta.stop_token));
}

void Fill(const OutputUsage& usage, v1::Usage& out) {
  out.set_prompt_tokens(static_cast<uint32_t>(usage.num_prompt_tokens));
  out.set_completion_tokens(static_cast<uint32_t>(usage.num_output_tokens));
  out.set_cached_tokens(static_cast<uint32_t>(usage.num_cached_tokens));
  v1::CachedTokensByTier& by_tier = *out.mutable_cached_tokens_by_tier();
  by_tier.set_device(static_cast<uint32_t>(usage.num_cached_tokens - usage.num_loaded_tokens));
  by_tier.set_disk(static_cast<uint32_t>(usage.num_loaded_tokens));
  out.set_copied_tokens(static_cast<uint32_t>(usage.num_copied_tokens));
  if (usage.miss) Fill(*usage.miss, *out.mutable_cache_miss());
  out.set_queue_seconds(usage.queue_seconds);
  if (usage.waits) {
    const auto seconds = [&](WaitReason reason) {
      return ToSeconds((*usage.waits)[static_cast<size_t>(reason)]);
    };
    out.set_share_wait_seconds(seconds(WaitReason::kShare));
    out.set_room_wait_seconds(seconds(WaitReason::kRoom));
    out.set_prefix_wait_seconds(seconds(WaitReason::kPrefix));
    out.set_load_wait_seconds(seconds(WaitReason::kLoad));
  }
  out.set_time_to_first_token_seconds(usage.first_token_seconds.value_or(0));
  out.set_total_seconds(usage.total_seconds);
}

}  // namespace

v1::GenerateResponse ResponseOf(OutputPart&& part, const std::string& label) {
  v1::GenerateResponse out;
  out.set_request_id(label);
  for (OutputDelta& delta : part.deltas) Fill(std::move(delta), *out.add_deltas());
  for (ScoredPosition& position : part.prompt_logprobs) {
    Fill(std::move(position), *out.add_prompt_logprobs());
  }
  if (part.usage) Fill(*part.usage, *out.mutable_usage());
  return out;
}

absl::Status GenerateResponseFormat::Write(OutputPart part, const std::string& label,
                                           std::vector<grpc::ByteBuffer>& messages) {
  ToBytes(ResponseOf(std::move(part), label), messages.emplace_back());
  return absl::OkStatus();
}

}  // namespace incipit
