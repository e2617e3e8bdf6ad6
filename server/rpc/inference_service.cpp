#include "server/rpc/inference_service.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/random.h"
#include "base/status.h"
#include "server/rpc/error_details.h"
#include "server/rpc/tenant.h"
#include "server/rpc/wire.h"

namespace incipit {
namespace {

constexpr size_t kTemplateMessageBytesMax = 200;
constexpr int64_t kMetadataEntryBytes = 32;  // what HTTP/2 counts beside name and value

uint64_t DrawKey() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// The label of incipit_requests_rejected_total.
std::string_view RejectionLabel(const absl::Status& status) {
  const std::string why = ReasonOf(status);
  if (why == reason::kPromptTooLong) return "prompt_too_long";
  if (why == reason::kTooManyStreams) return "too_many_streams";
  if (why == reason::kMetadataTooLarge) return "metadata_too_large";
  if (why == reason::kDraining) return "draining";
  if (why == reason::kMalformedMessage) return "invalid_argument";
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "invalid_argument";
    case absl::StatusCode::kNotFound:
      return "not_found";
    case absl::StatusCode::kFailedPrecondition:
      return "failed_precondition";
    case absl::StatusCode::kUnimplemented:
      return "unimplemented";
    case absl::StatusCode::kResourceExhausted:
      return "queue_full";
    case absl::StatusCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case absl::StatusCode::kUnavailable:
      return "unavailable";
    default:
      return "internal";
  }
}

absl::Status NoTokenizer(std::string_view what) {
  return WithReason(FailedPrecondition("{} needs a tokenizer, and this model has none", what),
                    reason::kNoTokenizer);
}

// The field that an error of the tokenizer or of the template is about.
absl::Status AboutField(const absl::Status& status, std::string_view field,
                        std::string_view reason) {
  if (status.code() != absl::StatusCode::kInvalidArgument) return status;
  return FieldViolation(field, MessageOf(status), reason);
}

// Returns `message` as a client may see it: at most kTemplateMessageBytesMax bytes, escaped.
// A template repeats in its messages what the client sent.
std::string EscapedTemplateMessage(std::string_view message) {
  const bool is_cut = message.size() > kTemplateMessageBytesMax;
  return absl::CHexEscape(std::string(message.substr(0, kTemplateMessageBytesMax))) +
         (is_cut ? "..." : "");
}

absl::Status TemplateError(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
      return WithReason(status, reason::kNoChatTemplate);
    case absl::StatusCode::kUnimplemented:
      return WithReason(status, reason::kTemplateUnsupported);
    default:
      if (status.code() != absl::StatusCode::kInvalidArgument) return status;
      return FieldViolation("messages", EscapedTemplateMessage(MessageOf(status)),
                            reason::kTemplateRefused);
  }
}

}  // namespace

InferenceService::InferenceService(const InferenceContext& context)
    : context_(context), random_key_(DrawKey()) {}

uint64_t InferenceService::Draw() { return RandomBits(random_key_, 0, num_drawn_.fetch_add(1)); }

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Generate(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes) {
  return Start(*call, *bytes, [&]() -> absl::StatusOr<CheckedRequest> {
    v1::GenerateRequest message;
    INCIPIT_RETURN_IF_ERROR(FromBytes(*bytes, message));
    return CheckGenerateRequest(message, context_.model, context_.options.request);
  });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Chat(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes) {
  return Start(*call, *bytes, [&]() -> absl::StatusOr<CheckedRequest> {
    v1::ChatRequest message;
    INCIPIT_RETURN_IF_ERROR(FromBytes(*bytes, message));
    return CheckChatRequest(message, context_.model, context_.options.request);
  });
}

template <typename Check>
grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Start(
    grpc::CallbackServerContext& call, const grpc::ByteBuffer& bytes, Check check) {
  const Time arrival = context_.clock.Now();
  const std::shared_ptr<GenerateStream> stream = GenerateStream::Open(call, context_.clock);
  if (absl::Status status = Track(call, *stream); !status.ok()) {
    stream->End(Rejected(std::move(status)));
    return stream.get();
  }
  const CallEnd end{*stream, arrival, DeadlineOf(call, arrival)};
  absl::StatusOr<std::string> tenant = Admit(call);
  absl::StatusOr<CheckedRequest> checked = tenant.ok() ? check() : tenant.status();
  if (!checked.ok() && !bytes.Valid()) {
    // Cancelled before its message came, or sent without one: gRPC tells which once it is done.
    stream->OnDoneCall([this, end, status = checked.status()] {
      CountUntaken(end, status);
      context_.calls.End();
    });
    stream->End(checked.status());
    return stream.get();
  }
  if (!checked.ok()) {
    CountUntaken(end, checked.status());
    stream->End(checked.status());
    return stream.get();
  }
  Job job{stream, *std::move(checked), *std::move(tenant), arrival, end.deadline};
  if (!context_.text_pool.Run(
          [this, job = std::move(job)]() mutable { Prepare(std::move(job)); })) {
    const absl::Status status = TextQueueFull();
    CountUntaken(end, status);
    stream->End(status);
  }
  return stream.get();
}

absl::Status InferenceService::Track(const grpc::CallbackServerContext& call,
                                     GenerateStream& stream) {
  CallTracker& calls = context_.calls;
  const std::string connection = call.peer();
  switch (calls.Begin(connection)) {
    case CallTracker::Verdict::kAdmitted:
      stream.OnFinishCall([&calls, connection] { calls.Release(connection); });
      stream.OnDoneCall([&calls] { calls.End(); });
      return absl::OkStatus();
    case CallTracker::Verdict::kTooMany:
      return Busy("calls are in progress, streams-max is", context_.options.streams_max,
                  reason::kTooManyStreams);
    case CallTracker::Verdict::kTooManyOfConnection:
      break;
  }
  return Busy("calls of one connection are in progress, connection-streams-max is",
              context_.options.connection_streams_max, reason::kTooManyStreams);
}

absl::Status InferenceService::CheckMetadata(const grpc::CallbackServerContext& call) const {
  int64_t num_bytes = 0;
  for (const auto& [name, value] : call.client_metadata()) {
    num_bytes += static_cast<int64_t>(name.size() + value.size()) + kMetadataEntryBytes;
  }
  const int64_t limit = context_.options.metadata_bytes_max;
  if (num_bytes <= limit) return absl::OkStatus();
  return WithReason(ResourceExhausted("the call's metadata have {} bytes; metadata-bytes-max is {}",
                                      num_bytes, limit),
                    reason::kMetadataTooLarge);
}

absl::StatusOr<std::string> InferenceService::Admit(const grpc::CallbackServerContext& call) {
  INCIPIT_RETURN_IF_ERROR(CheckMetadata(call));
  const EngineLoad load = context_.engine.Load();
  if (load.failed) return Gone(Unavailable("the engine has failed"), load);
  if (load.draining) return Gone(Unavailable("the server is draining"), load);
  return TenantOf(call, context_.options.request);
}

// Who has failed drains on the way out: that is not the reason then.
absl::Status InferenceService::Gone(absl::Status status, const EngineLoad& load) const {
  const std::string_view why = load.failed ? reason::kEngineFailed : reason::kDraining;
  return WithRetryDelay(WithReason(std::move(status), why), context_.dispatcher.RetryDelay(0));
}

Time InferenceService::DeadlineOf(const grpc::CallbackServerContext& call, Time arrival) const {
  // From here on only what remains of it counts, on a clock that never jumps. What lies beyond the
  // range of a Duration, such as no deadline, is told by its seconds.
  const gpr_timespec deadline = call.raw_deadline();
  const gpr_timespec remaining = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  const Duration longest = context_.options.request_time_max;
  const std::chrono::seconds longest_seconds =
      std::chrono::duration_cast<std::chrono::seconds>(longest);
  if (remaining.tv_sec > longest_seconds.count()) return arrival + longest;
  if (remaining.tv_sec < 0) return arrival;
  const Duration exact =
      std::chrono::seconds(remaining.tv_sec) + std::chrono::nanoseconds(remaining.tv_nsec);
  return arrival + std::min(exact, longest);
}

void InferenceService::Prepare(Job job) {
  absl::Status status = absl::CancelledError();
  if (!job.stream->cancelled()) {
    status = EncodePrompt(job.checked);
    if (status.ok()) status = CheckDeadline(job);
    if (status.ok()) status = Submit(job);
  }
  if (status.ok()) return;
  CountUntaken({*job.stream, job.arrival, job.deadline}, status);
  job.stream->End(std::move(status));
}

absl::Status InferenceService::EncodePrompt(CheckedRequest& checked) const {
  std::string_view field = "token_ids.ids";
  std::vector<TokenId> tokens;
  if (const auto* const text = std::get_if<std::string>(&checked.prompt)) {
    field = "text";
    INCIPIT_ASSIGN_OR_RETURN(tokens, EncodeText(*text, /*add_special_tokens=*/true));
  } else if (const auto* const conversation = std::get_if<Conversation>(&checked.prompt)) {
    field = "messages";
    INCIPIT_ASSIGN_OR_RETURN(tokens, EncodeConversation(*conversation));
  } else {
    tokens = std::get<std::vector<TokenId>>(std::move(checked.prompt));
  }
  return SetPrompt(std::move(tokens), field, context_.model, context_.options.request, checked);
}

absl::StatusOr<std::vector<TokenId>> InferenceService::EncodeText(std::string_view text,
                                                                  bool add_special_tokens) const {
  EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  auto tokens = context_.tokenizer->Encode(text, options);
  if (!tokens.ok()) return AboutField(tokens.status(), "text", reason::kInvalidField);
  return tokens;
}

absl::StatusOr<std::vector<TokenId>> InferenceService::EncodeConversation(
    const Conversation& conversation) const {
  const auto rendered = context_.chat_template->Render(conversation.variables);
  if (!rendered.ok()) return TemplateError(rendered.status());
  EncodeOptions options;
  options.add_special_tokens = false;  // the template writes them
  if (!context_.options.allow_special_tokens_in_chat) {
    options.literal_ranges = rendered->literal_ranges;
  }
  auto tokens = context_.tokenizer->Encode(rendered->text, options);
  if (!tokens.ok()) return AboutField(tokens.status(), "messages", reason::kInvalidField);
  return tokens;
}

bool InferenceService::ShowsText(std::span<const TokenId> prompt) const {
  if (context_.tokenizer == nullptr) return false;
  return std::any_of(prompt.begin(), prompt.end(),
                     [&](TokenId token) { return !context_.tokenizer->IsSpecial(token); });
}

bool InferenceService::IsQueueHeldUp(const EngineLoad& load) const {
  if (load.num_running + load.num_waiting >= context_.options.running_max) return true;
  const int64_t free_tokens =
      int64_t{load.num_blocks - load.num_used_blocks} * std::max(load.block_size, 1);
  return load.num_waiting_prompt_tokens > free_tokens;
}

absl::Status InferenceService::CheckDeadline(const Job& job) const {
  const EngineLoad load = context_.engine.Load();
  if (!IsQueueHeldUp(load)) return absl::OkStatus();
  const int32_t num_waiting = load.num_waiting;
  const Duration wait = context_.dispatcher.ExpectedWait(num_waiting);
  const Duration left = job.deadline - context_.clock.Now();
  // One that has passed is DEADLINE_EXCEEDED, as it is later.
  if (left <= Duration::zero() || wait <= left) return absl::OkStatus();
  return WithRetryDelay(
      WithReason(ResourceExhausted("the deadline is in {:.3f} s, and {} requests wait already, "
                                   "which takes about {:.3f} s",
                                   ToSeconds(left), num_waiting, ToSeconds(wait)),
                 reason::kQueueTooLong),
      context_.dispatcher.RetryDelay(num_waiting));
}

absl::Status InferenceService::Submit(Job& job) {
  Request& request = job.checked.request;
  const RequestId id{next_id_.fetch_add(1)};
  request.id = id;
  request.arrival = job.arrival;
  request.deadline = job.deadline;
  if (!job.checked.has_seed) request.sampling.seed = Draw();
  SetTenant(job.tenant, context_.options.isolate_tenants, job.checked.cache_salt, request);

  PendingAnswer answer;
  answer.stream = job.stream;
  answer.label = std::move(job.checked.label);
  if (answer.label.empty()) answer.label = fmt::format("{:016x}", Draw());
  answer.options = std::move(job.checked.answer);
  answer.num_choices = request.num_choices;
  answer.num_prompt_tokens = static_cast<int32_t>(request.prompt.size());
  answer.after_prompt = ShowsText(request.prompt);
  answer.reads_cache = context_.options.prefix_cache && request.read_cache;
  answer.arrival = job.arrival;
  answer.deadline = job.deadline;
  context_.dispatcher.Add(id, std::move(answer));
  absl::Status status = context_.engine.Submit(std::move(request));
  if (status.ok()) {
    job.stream->OnCancelCall([&engine = context_.engine, id] { engine.Cancel(id); });
    return status;
  }
  context_.dispatcher.Remove(id);
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return FieldViolation("prompt", MessageOf(status), reason::kPromptTooLong);
    case absl::StatusCode::kResourceExhausted:
      return WithRetryDelay(WithReason(std::move(status), reason::kQueueFull),
                            context_.dispatcher.RetryDelay(context_.engine.Load().num_waiting));
    case absl::StatusCode::kUnavailable:
      return Gone(std::move(status), context_.engine.Load());
    default:
      return status;
  }
}

void InferenceService::CountUntaken(const CallEnd& end, const absl::Status& status) const {
  if (!end.stream.cancelled()) {
    context_.metrics.OnRequestRejected(RejectionLabel(status));
    return;
  }
  RequestOutcome outcome;
  outcome.finish = end.stream.CancelReason(end.arrival, end.deadline);
  outcome.total_seconds = ToSeconds(context_.clock.Now() - end.arrival);
  context_.metrics.OnRequestFinished(outcome);
}

absl::Status InferenceService::Rejected(absl::Status status) const {
  context_.metrics.OnRequestRejected(RejectionLabel(status));
  return status;
}

absl::Status InferenceService::Busy(std::string_view what, int32_t limit,
                                    std::string_view reason) const {
  return WithRetryDelay(WithReason(ResourceExhausted("too many {} {}", what, limit), reason),
                        context_.dispatcher.RetryDelay(context_.engine.Load().num_waiting));
}

absl::Status InferenceService::TextQueueFull() const {
  return Busy("calls wait for a text thread, text-queue-max is", context_.options.text_queue_max,
              reason::kTextQueueFull);
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* call,
                                                     const grpc::ByteBuffer* bytes,
                                                     grpc::ByteBuffer* response) {
  return RunText(*call, *bytes, *response, &InferenceService::TokenizeText);
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* call,
                                                       const grpc::ByteBuffer* bytes,
                                                       grpc::ByteBuffer* response) {
  return RunText(*call, *bytes, *response, &InferenceService::DetokenizeIds);
}

template <typename Message, typename Response>
grpc::ServerUnaryReactor* InferenceService::RunText(
    grpc::CallbackServerContext& call, const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response,
    absl::Status (InferenceService::*work)(const Message&, Response&) const) {
  grpc::ServerUnaryReactor* const reactor = call.DefaultReactor();
  Message message;
  absl::Status status = CheckMetadata(call);
  if (status.ok()) status = FromBytes(bytes, message);
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(Rejected(std::move(status))));
    return reactor;
  }
  const auto run = [this, reactor, work, &response, message = std::move(message)] {
    Response filled;
    absl::Status status = (this->*work)(message, filled);
    if (status.ok()) {
      ToBytes(filled, response);
    } else {
      status = Rejected(std::move(status));
    }
    reactor->Finish(ToGrpcStatus(status));
  };
  if (!context_.text_pool.Run(run)) {
    reactor->Finish(ToGrpcStatus(Rejected(TextQueueFull())));
  }
  return reactor;
}

absl::Status InferenceService::TokenizeText(const v1::TokenizeRequest& message,
                                            v1::TokenizeResponse& response) const {
  if (context_.tokenizer == nullptr) return NoTokenizer("Tokenize");
  const bool adds = !message.has_add_special_tokens() || message.add_special_tokens();
  INCIPIT_ASSIGN_OR_RETURN(const auto tokens, EncodeText(message.text(), adds));
  response.mutable_ids()->Add(tokens.begin(), tokens.end());
  return absl::OkStatus();
}

absl::Status InferenceService::DetokenizeIds(const v1::DetokenizeRequest& message,
                                             v1::DetokenizeResponse& response) const {
  if (context_.tokenizer == nullptr) return NoTokenizer("Detokenize");
  INCIPIT_ASSIGN_OR_RETURN(const auto tokens, CheckDetokenizeRequest(message, context_.model));
  response.set_text(context_.tokenizer->Decode(tokens, message.skip_special_tokens()));
  return absl::OkStatus();
}

}  // namespace incipit
