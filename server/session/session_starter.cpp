#include "server/session/session_starter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limit.h"
#include "base/status.h"
#include "server/session/request/request_error.h"
#include "server/session/retry_delay.h"

namespace incipit {
SessionStarter::SessionStarter(const SessionContext& context) : context_(context) {}

absl::Status SessionStarter::CheckOpen() const {
  const EngineLoad load = context_.engine.Load();
  return load.failed || load.draining ? Closed(load) : absl::OkStatus();
}

// Tests `load.failed` first, because a failed engine may also be draining.
absl::Status SessionStarter::Closed(const EngineLoad& load) const {
  const absl::Status status = load.failed
                                  ? incipit::Refuse(Reason::kEngineFailed, "the engine has failed")
                                  : incipit::Refuse(Reason::kDraining, "the server is draining");
  return WithRetryDelay(status, kRetryDelayMin);
}

absl::Status SessionStarter::Busy(Reason reason, std::string_view message, int64_t limit) const {
  return WithRetryDelay(WithBound(incipit::Refuse(reason, message), limit),
                        RetryDelayFor(context_.engine.expected_wait()));
}

absl::Status SessionStarter::TextQueueFull(TextQueueLimit limit) const {
  const Options& options = context_.options;
  switch (limit) {
    case TextQueueLimit::kTasks:
      return Busy(Reason::kTextQueueFull,
                  fmt::format("too many calls wait to be parsed; text-queue-max is {}",
                              options.text_queue_max),
                  options.text_queue_max);
    case TextQueueLimit::kBytes:
      return Busy(
          Reason::kTextQueueFull,
          fmt::format(
              "the calls that wait to be parsed have too many bytes; text-queue-bytes-max is {}",
              options.text_queue_bytes_max),
          options.text_queue_bytes_max);
    case TextQueueLimit::kTokens:
      return Busy(
          Reason::kQueueFull,
          fmt::format("the waiting requests have too many prompt tokens; the limit is {} tokens",
                      options.waiting_prompt_tokens_max),
          options.waiting_prompt_tokens_max);
  }
  INCIPIT_CHECK(false);
}

void SessionStarter::RunText(std::string_view connection, const TextLoad& load,
                             int64_t tokens_behind, TextTask task) const {
  TextPool::Task pooled = [this,
                           task = std::move(task)](std::optional<TextQueueLimit> limit) mutable {
    task(limit ? TextQueueFull(*limit) : absl::OkStatus());
  };
  const std::optional<TextQueueLimit> limit =
      context_.text_pool.Run(connection, load, tokens_behind, std::move(pooled));
  // If the queue is full, Run returns the reached limit and does not move from `pooled`. In this
  // case, the next line calls `pooled` with the limit, so that `task` receives an error.
  if (limit) pooled(limit);
}

void SessionStarter::Refuse(Session& session, const absl::Status& status,
                            std::string_view tenant) const {
  session.ReleaseSlot();
  if (session.cancelled()) {
    RequestOutcome outcome;
    outcome.finish = session.CancelReason();
    outcome.total_seconds = ToSeconds(context_.clock.Now() - session.arrival());
    context_.metrics.OnRequestFinished(outcome);
  } else {
    context_.metrics.OnRequestRejected(ErrorOf(status).reason, tenant);
  }
  session.End(status);
}

void SessionStarter::Start(std::shared_ptr<Session> session, RequestArrival arrival,
                           Estimate estimate, Read read) {
  ReadAll read_one = [session,
                      read = std::move(read)]() mutable -> absl::StatusOr<std::vector<Prompt>> {
    INCIPIT_ASSIGN_OR_RETURN(RequestDraft draft, read());
    std::vector<Prompt> prompts;
    prompts.push_back({std::move(session), std::move(draft)});
    return prompts;
  };
  StartAll(std::move(session), std::move(arrival), estimate, std::move(read_one));
}

void SessionStarter::StartAll(std::shared_ptr<Session> session, RequestArrival arrival,
                              Estimate estimate, ReadAll read) {
  const absl::StatusOr<Room> room = CheckRoom(arrival, *session, estimate);
  if (!room.ok()) {
    Refuse(*session, room.status(), arrival.tenant);
    return;
  }
  const std::string connection = arrival.connection;
  Job job{std::move(session), std::move(arrival), std::move(read)};
  RunText(connection, room->load, room->tokens_behind,
          [this, job = std::move(job)](const absl::Status& status) mutable {
            if (status.ok()) {
              Prepare(std::move(job));
            } else {
              Refuse(*job.session, status, job.arrival.tenant);
            }
          });
}

absl::Status SessionStarter::TakeSlot(Session& session) const {
  std::optional<RequestCounter::Slot> slot = context_.requests.Take();
  if (!slot) {
    return Busy(Reason::kQueueFull,
                fmt::format("{} requests wait or run; the limit is {}", context_.requests.count(),
                            context_.requests.max()),
                context_.requests.max());
  }
  session.KeepSlot(*std::move(slot));
  return absl::OkStatus();
}

absl::StatusOr<SessionStarter::Room> SessionStarter::CheckRoom(const RequestArrival& arrival,
                                                               Session& session,
                                                               Estimate estimate) const {
  INCIPIT_RETURN_IF_ERROR(TakeSlot(session));
  const auto [num_tokens, field] = estimate();
  INCIPIT_RETURN_IF_ERROR(CheckPromptLength(num_tokens, /*is_exact=*/false, field, context_.model,
                                            context_.options.request));
  const int64_t num_waiting = context_.engine.Load().num_waiting_prompt_tokens;
  const int64_t limit = context_.options.waiting_prompt_tokens_max;
  if (num_waiting > 0 && num_waiting + num_tokens > limit) {
    return Busy(Reason::kQueueFull,
                fmt::format("the waiting requests have {} prompt tokens, and this prompt has at "
                            "least {}; together, at most {} tokens may wait",
                            num_waiting, num_tokens, limit),
                limit);
  }
  return Room{.load = {.num_bytes = arrival.num_bytes, .num_tokens = num_tokens},
              .tokens_behind = num_waiting};
}

void SessionStarter::Prepare(Job job) {
  absl::StatusOr<std::vector<Prepared>> prepared = ReadAndCheck(job);
  absl::Status status = prepared.status();
  if (status.ok()) status = CheckDeadline(*job.session);
  if (!status.ok()) {
    Refuse(*job.session, status, job.arrival.tenant);
    return;
  }
  for (Prepared& one : *prepared) {
    status = one.session->CheckWanted();
    if (status.ok()) status = Submit(one.session, job.arrival.tenant, std::move(one.request));
    if (status.ok()) continue;
    Refuse(*one.session, status, job.arrival.tenant);
    return;
  }
}

absl::StatusOr<std::vector<SessionStarter::Prepared>> SessionStarter::ReadAndCheck(Job& job) const {
  INCIPIT_RETURN_IF_ERROR(job.session->CheckWanted());
  INCIPIT_ASSIGN_OR_RETURN(std::vector<Prompt> prompts, job.read());
  job.read = nullptr;  // frees the memory of the serialized request
  std::vector<Prepared> prepared;
  prepared.reserve(prompts.size());
  for (Prompt& prompt : prompts) {
    absl::StatusOr<CheckedRequest> request = TakeSlotAndCheck(*job.session, prompt);
    if (!request.ok()) {
      // Stops counting the prompts against --requests-max before the client receives the error,
      // because the client may then send another request immediately.
      for (const Prepared& earlier : prepared) earlier.session->ReleaseSlot();
      prompt.session->ReleaseSlot();
      return request.status();
    }
    prepared.push_back({prompt.session, *std::move(request)});
  }
  return prepared;
}

// Counts the session of `prompt` against --requests-max, and checks the prompt. If this session is
// `first`, does not count the session, because StartAll has already counted `first`.
absl::StatusOr<CheckedRequest> SessionStarter::TakeSlotAndCheck(const Session& first,
                                                                Prompt& prompt) const {
  if (prompt.session.get() != &first) INCIPIT_RETURN_IF_ERROR(TakeSlot(*prompt.session));
  return Check(prompt);
}

absl::StatusOr<CheckedRequest> SessionStarter::Check(Prompt& prompt) const {
  const Session& session = *prompt.session;
  const auto check_wanted = [&session] { return session.CheckWanted(); };
  const RequestLimits& limits = context_.options.request;
  INCIPIT_ASSIGN_OR_RETURN(
      CheckedRequest checked,
      CheckDraft(std::move(prompt.draft), context_.model, limits, check_wanted));
  INCIPIT_RETURN_IF_ERROR(check_wanted());
  INCIPIT_ASSIGN_OR_RETURN(PromptEncoder::Encoded encoded,
                           context_.encoder.Encode(checked, context_.model, limits, check_wanted));
  INCIPIT_RETURN_IF_ERROR(
      SetPrompt(std::move(encoded.tokens), encoded.field, context_.model, limits, checked));
  if (const auto* const conversation = std::get_if<Conversation>(&checked.prompt)) {
    checked.output.parsing = OutputParsing{.formats = context_.encoder.formats(),
                                           .begins_in_reasoning = encoded.ends_in_reasoning,
                                           .tools = conversation->tools};
  }
  if (prompt.on_tokens) prompt.on_tokens(checked.request.prompt);
  return checked;
}

bool SessionStarter::IsQueueHeldUp(const EngineLoad& load) const {
  if (load.num_running + load.num_waiting >= context_.options.running_max) return true;
  const int64_t free_tokens =
      int64_t{load.num_blocks - load.num_used_blocks} * std::max(load.block_size, 1);
  return load.num_waiting_prompt_tokens > free_tokens;
}

absl::Status SessionStarter::CheckDeadline(const Session& session) const {
  // With the scheduling policy `fair`, the waiting time depends on the tenant, so this function
  // cannot estimate the waiting time. The scheduler then refuses requests that cannot meet their
  // deadline.
  if (context_.options.scheduling != SchedulingKind::kFcfs) return absl::OkStatus();
  const EngineLoad load = context_.engine.Load();
  if (!load.expected_wait || !IsQueueHeldUp(load)) return absl::OkStatus();
  const Duration wait = *load.expected_wait;
  const Duration left = session.deadline() - context_.clock.Now();
  // Returns OK if the deadline has already passed, because Session::CheckWanted then returns
  // DEADLINE_EXCEEDED.
  if (left <= Duration::zero() || wait <= left) return absl::OkStatus();
  return WithRetryDelay(
      incipit::Refuse(Reason::kQueueTooLong,
                      fmt::format("the deadline is in {:.3f} s, but {} requests wait in the "
                                  "queue, so the first token is expected after {:.3f} s",
                                  ToSeconds(left), load.num_waiting, ToSeconds(wait))),
      RetryDelayFor(wait));
}

absl::Status SessionStarter::Submit(const std::shared_ptr<Session>& session,
                                    std::string_view tenant, CheckedRequest checked) {
  Request& request = checked.request;
  const RequestId id{next_id_.fetch_add(1)};
  request.id = id;
  request.arrival = session->arrival();
  request.deadline = session->deadline();
  if (!checked.has_seed) request.sampling.seed = random_.Next();
  SetTenant(tenant, context_.options.isolate_tenants, checked.cache_salt, request);
  session->set_label(checked.label.empty() ? fmt::format("{:016x}", random_.Next())
                                           : std::move(checked.label));
  PendingOutput output;
  output.session = session;
  output.options = std::move(checked.output);
  output.num_choices = request.num_choices;
  output.num_prompt_tokens = request.num_prompt();
  output.output_tokens_max = request.output_tokens_max;
  output.after_prompt = context_.encoder.ShowsText(request.prompt);
  output.reads_cache = context_.options.prefix_cache && request.read_cache;
  context_.dispatcher.Add(id, std::move(output));
  const absl::Status status =
      context_.engine.Submit(std::make_shared<const Request>(std::move(request)));
  if (!status.ok()) {
    context_.dispatcher.Remove(id);
    return SubmitError(status);
  }
  session->OnCancelCall([&engine = context_.engine, id] { engine.Cancel(id); });
  return absl::OkStatus();
}

absl::Status SessionStarter::SubmitError(const absl::Status& status) const {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted: {
      const std::optional<int64_t> limit = LimitOf(status);
      INCIPIT_CHECK(limit.has_value());
      return Busy(Reason::kQueueFull, MessageOf(status), *limit);
    }
    case absl::StatusCode::kUnavailable:
      return Closed(context_.engine.Load());
    default:
      return status;
  }
}

}  // namespace incipit
