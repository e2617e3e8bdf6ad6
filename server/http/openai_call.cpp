#include "server/http/openai_call.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/status.h"
#include "server/http/openai_error.h"
#include "server/session/request/checked_request.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

constexpr std::string_view kRequestIdField = "x-request-id";
// Maximum estimated size, in bytes, of a response that the thread of the TokenDispatcher converts
// to JSON. Other threads convert larger responses, because the TokenDispatcher passes on the output
// of all requests and must not be delayed.
constexpr int64_t kSmallResponseBytes = 64 << 10;

HttpResponse StreamHead() {
  HttpResponse head{.content_type = "text/event-stream"};
  head.fields.emplace_back("Cache-Control", "no-cache");
  // Turns off the buffer of the proxy nginx, so that nginx sends each event without delay.
  head.fields.emplace_back("X-Accel-Buffering", "no");
  return head;
}

}  // namespace

// Receives the output of one prompt from a session (the object that handles the prompt), and passes
// the output to the OpenAiCall.
class OpenAiCall::Sink final : public OutputSink {
 public:
  Sink(std::shared_ptr<OpenAiCall> call, size_t prompt) : call_(std::move(call)), prompt_(prompt) {}
  void SetSession(const std::shared_ptr<Session>& session) { session_ = session; }

  void Deliver(OutputPart part) override {
    const std::shared_ptr<Session> session = session_.lock();
    if (call_->Deliver(prompt_, std::move(part), session)) session->OnDelivered(true);
  }
  void End(const absl::Status& status) override { call_->End(status); }
  void Reset() override { call_->exchange_->Abort(); }

 private:
  const std::shared_ptr<OpenAiCall> call_;
  const size_t prompt_;
  std::weak_ptr<Session> session_;
};

void OpenAiCall::Start(const OpenAiContext& context, std::shared_ptr<HttpExchange> exchange,
                       bool is_chat, uint64_t id) {
  std::shared_ptr<OpenAiCall> call(new OpenAiCall(context, std::move(exchange), is_chat, id));
  call->Begin();
}

OpenAiCall::OpenAiCall(const OpenAiContext& context, std::shared_ptr<HttpExchange> exchange,
                       bool is_chat, uint64_t id)
    : context_(context),
      exchange_(std::move(exchange)),
      is_chat_(is_chat),
      id_(id),
      arrival_(context.clock.Now()) {}

OpenAiCall::~OpenAiCall() = default;

void OpenAiCall::Begin() {
  exchange_->OnClosed([weak = weak_from_this()] {
    if (const auto call = weak.lock()) call->OnClosed();
  });
  const std::shared_ptr<Session> session = AddSession();
  if (const absl::Status status = Track(); !status.ok()) {
    context_.starter.Refuse(*session, status);
    return;
  }
  absl::StatusOr<std::string> tenant = Admit();
  if (!tenant.ok()) {
    context_.starter.Refuse(*session, tenant.status());
    return;
  }
  RequestArrival arrival;
  arrival.connection = exchange_->head().peer;
  arrival.tenant = *std::move(tenant);
  std::string body = exchange_->TakeBody();
  arrival.num_bytes = static_cast<int64_t>(body.size());
  context_.starter.StartAll(
      session, std::move(arrival), [] { return PromptEstimate{}; },
      [self = shared_from_this(), body = std::move(body)] { return self->Read(body); });
}

absl::Status OpenAiCall::Track() {
  if (context_.calls.Begin(exchange_->head().peer) == CallTracker::Verdict::kAdmitted) {
    is_counted_ = is_tracked_ = true;
    return absl::OkStatus();
  }
  return context_.starter.Busy(Reason::kTooManyStreams,
                               fmt::format("too many calls are in progress; streams-max is {}",
                                           context_.options.streams_max),
                               context_.options.streams_max);
}

absl::StatusOr<std::string> OpenAiCall::Admit() const {
  INCIPIT_RETURN_IF_ERROR(context_.starter.CheckOpen());
  const HttpRequestHead& head = exchange_->head();
  return TenantFrom(head.NumFields(kTenantField), head.Field(kTenantField),
                    context_.options.request);
}

std::shared_ptr<Session> OpenAiCall::AddSession() {
  MutexLock lock(mutex_);
  if (is_complete_ || is_closed_) return nullptr;
  const auto sink = std::make_shared<Sink>(shared_from_this(), sessions_.size());
  auto session = std::make_shared<Session>(sink, context_.clock, arrival_,
                                           arrival_ + context_.options.request_time_max);
  sink->SetSession(session);
  sessions_.push_back(session);
  ++num_sessions_;
  return session;
}

std::shared_ptr<Session> OpenAiCall::FirstSession() {
  MutexLock lock(mutex_);
  return sessions_.empty() ? nullptr : sessions_.front();
}

absl::StatusOr<std::vector<SessionStarter::Prompt>> OpenAiCall::Read(std::string_view body) {
  const OpenAiLimits limits{.request = context_.options.request,
                            .body_bytes_max = context_.options.message_bytes_max};
  INCIPIT_ASSIGN_OR_RETURN(OpenAiRequest request, is_chat_ ? ReadChatRequest(body, limits)
                                                           : ReadCompletionRequest(body, limits));
  std::string label = request.drafts.front().label;
  const std::string_view proxy_label = exchange_->head().Field(kRequestIdField);
  // A proxy may send request ids that the server does not accept. The server ignores such an id.
  if (label.empty() && CheckLabel(proxy_label, context_.options.request).ok()) label = proxy_label;
  if (label.empty()) label = fmt::format("{:016x}", id_);
  OpenAiIdentity identity{.id = (is_chat_ ? "chatcmpl-" : "cmpl-") + label,
                          .model = request.drafts.front().model.empty()
                                       ? context_.model.name
                                       : request.drafts.front().model,
                          .created = static_cast<int64_t>(std::time(nullptr))};
  {
    MutexLock lock(mutex_);
    output_ = std::make_unique<OpenAiOutput>(request.format, std::move(identity),
                                             request.drafts.size(), context_.tokenizer);
  }
  std::vector<SessionStarter::Prompt> prompts;
  for (size_t i = 0; i < request.drafts.size(); ++i) {
    RequestDraft& draft = request.drafts[i];
    draft.label = label;
    std::shared_ptr<Session> session = i == 0 ? FirstSession() : AddSession();
    if (session == nullptr) return Refuse(Reason::kCancelled, "the client has disconnected");
    auto on_tokens = OnTokensOf(i, request.format, draft);
    prompts.push_back({std::move(session), std::move(draft), std::move(on_tokens)});
  }
  return prompts;
}

SessionStarter::OnTokens OpenAiCall::OnTokensOf(size_t prompt, const OpenAiFormat& format,
                                                const RequestDraft& draft) {
  if (!format.echo && !format.return_token_ids) return nullptr;
  const auto* const text = std::get_if<std::string>(&draft.prompt);
  return [self = shared_from_this(), prompt, echo = format.echo,
          text = text != nullptr && format.echo ? *text
                                                : std::string()](std::span<const TokenId> tokens) {
    OpenAiPrompt value{.text = text, .tokens = {tokens.begin(), tokens.end()}};
    const Tokenizer* const tokenizer = self->context_.tokenizer;
    if (echo && text.empty() && tokenizer != nullptr) {
      value.text = tokenizer->Decode(tokens, /*skip_special_tokens=*/false);
    }
    MutexLock lock(self->mutex_);
    self->output_->SetPrompt(prompt, std::move(value));
  };
}

bool OpenAiCall::Deliver(size_t prompt, OutputPart part, const std::shared_ptr<Session>& session) {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    if (is_complete_) return true;
    std::string events = output_->Add(prompt, std::move(part));
    const auto kept = static_cast<int64_t>(output_->num_kept_bytes());
    const int64_t total = context_.num_kept_bytes += kept - num_counted_bytes_;
    num_counted_bytes_ = kept;
    const int64_t limit = context_.options.output_queue_bytes_max;
    if (kept > 0 && total > limit) {
      status = WithBound(Refuse(Reason::kWriteStalled,
                                "the responses that the server keeps in memory are larger than "
                                "output-queue-bytes-max; use a stream without echo"),
                         limit);
    } else if (output_->format().streams) {
      if (events.empty()) return true;
      // Calls BeginStream and Write while `mutex_` is locked. This is safe, because both functions
      // only add a task to a queue.
      if (!std::exchange(has_begun_, true)) exchange_->BeginStream(StreamHead());
      exchange_->Write(std::move(events), [session](bool ok) { session->OnDelivered(ok); });
      return false;
    }
  }
  if (!status.ok()) Fail(status);
  return true;
}

void OpenAiCall::End(const absl::Status& status) {
  if (!status.ok()) {
    Fail(status);
    return;
  }
  {
    MutexLock lock(mutex_);
    if (++num_ended_ < num_sessions_ || is_complete_) return;
    is_complete_ = true;
  }
  ReleaseLimits();
  SendEnd();
}

void OpenAiCall::Fail(const absl::Status& status) {
  std::vector<std::shared_ptr<Session>> sessions;
  bool has_begun = false;
  {
    MutexLock lock(mutex_);
    if (std::exchange(is_complete_, true)) return;
    sessions = sessions_;
    has_begun = has_begun_;
  }
  ReleaseLimits();
  SendError(status, has_begun);
  for (const auto& session : sessions) session->OnCancelled();
  ReleaseKeptBytes();
  Finish();
}

void OpenAiCall::SendEnd() {
  int64_t num_kept = 0;
  bool is_stream = false;
  {
    MutexLock lock(mutex_);
    num_kept = num_counted_bytes_;
    is_stream = output_->format().streams;
    if (is_stream) {
      if (!std::exchange(has_begun_, true)) exchange_->BeginStream(StreamHead());
      exchange_->Write(output_->StreamEnd(), [](bool) {});
      exchange_->EndStream();
    }
  }
  if (is_stream) {
    ReleaseKeptBytes();
    Finish();
  } else if (num_kept <= kSmallResponseBytes) {
    SendWhole();
  } else {
    // RunText queues the task for a thread that renders chat templates and tokenizes. If the queue
    // is full, RunText runs the task, and thus SendWhole, on the current thread.
    context_.starter.RunText(
        exchange_->head().peer, {}, /*tokens_behind=*/0,
        [self = shared_from_this()](const absl::Status&) { self->SendWhole(); });
  }
}

void OpenAiCall::SendWhole() {
  HttpResponse response;
  {
    MutexLock lock(mutex_);
    response.body = output_->Whole();
    output_.reset();
  }
  exchange_->Respond(std::move(response),
                     [self = shared_from_this()](bool) { self->ReleaseKeptBytes(); });
  Finish();
}

void OpenAiCall::ReleaseKeptBytes() {
  MutexLock lock(mutex_);
  context_.num_kept_bytes -= std::exchange(num_counted_bytes_, 0);
}

void OpenAiCall::SendError(const absl::Status& status, bool has_begun) {
  if (!has_begun) {
    exchange_->Respond(ErrorResponse(status));
    return;
  }
  exchange_->Write("data: " + ErrorJson(status) + "\n\n", [](bool) {});
  exchange_->EndStream();
}

void OpenAiCall::ReleaseLimits() {
  if (is_counted_.exchange(false)) context_.calls.Release(exchange_->head().peer);
}

void OpenAiCall::Finish() {
  std::vector<std::shared_ptr<Session>> released;
  {
    MutexLock lock(mutex_);
    released = std::exchange(sessions_, {});
  }
  if (is_tracked_.exchange(false)) context_.calls.End();
}

void OpenAiCall::OnClosed() {
  std::vector<std::shared_ptr<Session>> sessions;
  {
    MutexLock lock(mutex_);
    is_closed_ = true;
    // Removes the references of the call to its sessions. The sessions also refer to the call.
    // Without the removal, a call that gets no further event would never be deleted.
    sessions = std::exchange(sessions_, {});
  }
  for (const auto& session : sessions) session->OnCancelled();
}

}  // namespace incipit
