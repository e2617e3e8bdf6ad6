#include "server/session/token_dispatcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "server/session/request/request_error.h"
#include "server/session/retry_delay.h"

namespace incipit {

struct TokenDispatcher::Call {
  RequestId id{};
  PendingOutput output;
  std::vector<OutputChoice> choices;
  std::vector<Time> last_token;  // time of the last output token of each choice
  OutputPart part;               // output that has not been passed to the session yet
  size_t part_bytes = 0;         // estimated size in bytes of the log probabilities in `part`
  bool is_touched = false;       // true: Flush must send `part` or end the call
  int32_t num_open = 0;          // number of choices that have not ended
  // num_cached: number of prompt tokens that were found in the prefix cache. num_copied: number of
  // these tokens whose keys and values were copied from another cache block.
  int32_t num_cached = 0, num_copied = 0;
  int32_t num_loaded = 0;  // tokens, among num_cached, that were read from the disk cache
  Miss miss;
  bool is_abandoned = false;  // true: Abandon has discarded the output
  // Status with which the call ends if the engine cancels the request (finish reason kCancelled).
  // If absent, the call ends with CANCELLED.
  std::optional<absl::Status> end_status;
  // The most severe finish reason of the choices (outputs) that have ended. kError is the most
  // severe, then kDeadline and kTooLate, then kCancelled, then kStop.
  FinishReason finish = FinishReason::kStop;
  FinishReason last_finish = FinishReason::kStop;
  // Time in seconds that the request waited in the queue. Absent while the request waits.
  std::optional<double> queue_seconds;
  WaitTimes waits{};  // parts of `queue_seconds`
  std::optional<Time> first_token;
  Time last_token_of_all{};
  // inter_token_time: sum of the times between consecutive output tokens of the same choice
  // (output). num_inter_tokens: number of these times.
  Duration inter_token_time{};
  int64_t num_inter_tokens = 0;

  Call(RequestId request_id, PendingOutput pending, const Tokenizer* tokenizer)
      : id(request_id), output(std::move(pending)) {
    num_open = output.num_choices;
    for (int32_t i = 0; i < num_open; ++i) {
      choices.emplace_back(output.options, tokenizer, output.after_prompt);
    }
    last_token.resize(choices.size());
  }
  Session& session() const { return *output.session; }
};

namespace {

// Maximum estimated size in bytes of the log probabilities in one message. Log probabilities of a
// larger size, for example of a long prompt, are sent in several messages.
constexpr size_t kPartBytes = 64 << 10;

// Appends all rows of `from` to `to` (one row: the log probabilities at one token position).
// Returns the index in `to` of the first appended row.
int32_t AppendRows(const Logprobs& from, Logprobs& to) {
  const int32_t first = to.num_rows();
  const auto top_offset = static_cast<int32_t>(to.top.size());
  to.chosen.insert(to.chosen.end(), from.chosen.begin(), from.chosen.end());
  to.rank.insert(to.rank.end(), from.rank.begin(), from.rank.end());
  to.top.insert(to.top.end(), from.top.begin(), from.top.end());
  for (size_t i = 1; i < from.top_begin.size(); ++i) {
    to.top_begin.push_back(from.top_begin[i] + top_offset);
  }
  return first;
}

int Severity(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      return 0;
    case FinishReason::kCancelled:
      return 1;
    case FinishReason::kDeadline:
    case FinishReason::kTooLate:
      return 2;
    case FinishReason::kError:
      return 3;
  }
  return 3;
}

absl::Status StatusOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      return absl::OkStatus();
    case FinishReason::kCancelled:
      return Refuse(Reason::kCancelled, "the request was cancelled");
    case FinishReason::kDeadline:
      return Refuse(Reason::kDeadline, "the deadline passed before the output was complete");
    case FinishReason::kTooLate:
      return Refuse(Reason::kQueueTooLong,
                    "the prompt cannot be computed before the deadline, because other requests "
                    "use the server");
    case FinishReason::kError:
      break;
  }
  return Refuse(Reason::kInternal,
                "the model computed values that are not finite, or the device failed");
}

}  // namespace

bool TokenDispatcher::Inbox::empty() const {
  return added.empty() && admissions.empty() && prompt_logprobs_events.empty() && tokens.empty() &&
         removed.empty() && !cancel_all && !fatal;
}

void TokenDispatcher::Inbox::Clear() {
  added.clear();
  admissions.clear();
  prompt_logprobs_events.clear();
  tokens.clear();
  removed.clear();
  logprobs.Clear();
  prompt_logprobs.Clear();
  cancel_all.reset();
  fatal.reset();
}

TokenDispatcher::TokenDispatcher(DispatcherOptions options, const Clock& clock, Metrics& metrics)
    : options_(std::move(options)),
      clock_(clock),
      metrics_(metrics),
      stalls_(options_.write_stall_timeout) {
  thread_ = std::thread([this] { Work(); });
}

TokenDispatcher::~TokenDispatcher() { Stop(); }

void TokenDispatcher::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TokenDispatcher::Add(RequestId id, PendingOutput output) {
  output.session->CountWaitingBytes(waiting_bytes_);
  {
    MutexLock lock(mutex_);
    inbox_.added.emplace_back(id, std::move(output));
  }
  changed_.notify_one();
}

void TokenDispatcher::Remove(RequestId id) {
  {
    MutexLock lock(mutex_);
    inbox_.removed.push_back(id);
  }
  changed_.notify_one();
}

void TokenDispatcher::CancelAll(absl::Status status) {
  {
    MutexLock lock(mutex_);
    inbox_.cancel_all = std::move(status);
  }
  changed_.notify_one();
}

void TokenDispatcher::OnStep(const StepEvents& events) {
  metrics_.OnStep(events);
  if (events.stats.run > step_longest()) step_longest_.store(events.stats.run.count());
  if (events.admissions.empty() && events.prompt_logprobs_events.empty() && events.tokens.empty()) {
    return;
  }
  const Time now = clock_.Now();
  {
    MutexLock lock(mutex_);
    inbox_.admissions.insert(inbox_.admissions.end(), events.admissions.begin(),
                             events.admissions.end());
    const int32_t first_row = AppendRows(events.logprobs, inbox_.logprobs);
    for (const TokenEvent& event : events.tokens) {
      inbox_.tokens.push_back({event, now});
      if (event.logprobs_row >= 0) inbox_.tokens.back().event.logprobs_row += first_row;
    }
    const int32_t first_prompt_row = AppendRows(events.prompt_logprobs, inbox_.prompt_logprobs);
    for (PromptLogprobsEvent event : events.prompt_logprobs_events) {
      event.first_row += first_prompt_row;
      inbox_.prompt_logprobs_events.push_back(event);
    }
  }
  changed_.notify_one();
}

void TokenDispatcher::OnFatal(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    inbox_.fatal = status;
  }
  changed_.notify_one();
}

void TokenDispatcher::Work() {
  Inbox batch;
  while (true) {
    bool stopping = false;
    {
      MutexLock lock(mutex_);
      while (inbox_.empty() && !stopping_) {
        // While requests run or output is unread, waits at most until the time `stall_check_`,
        // because this thread must then look for clients that do not read.
        if (calls_.empty() && stalls_.empty()) {
          changed_.wait(mutex_);
        } else if (changed_.wait_until(mutex_, stall_check_) == std::cv_status::timeout) {
          break;
        }
      }
      stopping = stopping_ && inbox_.empty();
      std::swap(batch, inbox_);
    }
    if (stopping) return;
    Handle(batch);
    batch.Clear();
    const Time now = clock_.Now();
    if (now >= stall_check_) {
      CheckStalls(now);
      stall_check_ = now + options_.write_stall_timeout / 4;
    }
  }
}

void TokenDispatcher::Handle(Inbox& batch) {
  for (auto& [id, output] : batch.added) {
    calls_.emplace(id, std::make_unique<Call>(id, std::move(output), options_.tokenizer));
  }
  for (const AdmissionEvent& event : batch.admissions) HandleAdmission(event);
  for (const PromptLogprobsEvent& event : batch.prompt_logprobs_events) {
    HandlePromptLogprobs(event, batch.prompt_logprobs);
  }
  for (const TimedToken& token : batch.tokens) HandleToken(token, batch.logprobs);
  CountGenerated();
  Flush();
  BoundWaitingOutput();
  for (const RequestId id : batch.removed) calls_.erase(id);
  if (batch.cancel_all) HandleCancelAll(*batch.cancel_all);
  if (batch.fatal && options_.on_fatal) options_.on_fatal(*batch.fatal);
}

TokenDispatcher::Call* TokenDispatcher::Find(RequestId id) {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : found->second.get();
}

void TokenDispatcher::Touch(Call& call) {
  if (std::exchange(call.is_touched, true)) return;
  touched_.push_back(&call);
}

void TokenDispatcher::HandleAdmission(const AdmissionEvent& event) {
  Call* const call = Find(event.request);
  if (call == nullptr || call->queue_seconds) return;
  call->num_cached = event.num_cached_tokens;
  call->part.prompt = PromptUsage{.num_tokens = call->output.num_prompt_tokens,
                                  .num_cached_tokens = event.num_cached_tokens};
  call->num_copied = event.num_copied_tokens;
  call->num_loaded = event.num_loaded_tokens;
  call->miss = event.miss;
  call->queue_seconds = ToSeconds(event.queue_time);
  call->waits = event.waits;
}

void TokenDispatcher::HandlePromptLogprobs(const PromptLogprobsEvent& event,
                                           const Logprobs& logprobs) {
  Call* const call = Find(event.request);
  if (call == nullptr || call->is_abandoned) return;
  Touch(*call);
  for (int32_t i = 0; i < event.num_rows; ++i) {
    call->part.prompt_logprobs.push_back(
        ScoredPositionOf(logprobs, event.first_row + i, options_.tokenizer));
    call->part_bytes += EstimatedBytes(call->part.prompt_logprobs.back());
    if (call->part_bytes > kPartBytes) SendPart(*call);
  }
}

void TokenDispatcher::HandleToken(const TimedToken& token, const Logprobs& logprobs) {
  const TokenEvent& event = token.event;
  Call* const call = Find(event.request);
  if (call == nullptr) return;
  const auto index = static_cast<size_t>(event.choice);
  INCIPIT_CHECK(index < call->choices.size());
  OutputChoice& choice = call->choices[index];
  // Ignores tokens of a choice (output) that a stop string has ended. The engine may still report
  // such a token, because the engine may have computed the token already.
  if (choice.ended()) return;
  if (event.token >= 0) {
    ++num_generated_;
    if (!call->first_token) {
      call->first_token = token.time;
      metrics_.OnFirstToken(ToSeconds(token.time - call->session().arrival()));
    }
    if (choice.num_tokens() > 0) {
      const Duration time = token.time - call->last_token[index];
      metrics_.OnInterTokenLatency(ToSeconds(time), 1);
      call->inter_token_time += time;
      ++call->num_inter_tokens;
    }
    call->last_token[index] = call->last_token_of_all = token.time;
  }
  Touch(*call);
  OutputDelta& delta = call->part.DeltaOf(event.choice);
  if (choice.Push(event, logprobs, delta)) {
    engine_.load()->CancelChoice(event.request, event.choice);
  }
  if (event.token >= 0 && !delta.logprobs.empty()) {
    call->part_bytes += EstimatedBytes(delta.logprobs.back());
    if (call->part_bytes > kPartBytes && !call->is_abandoned) SendPart(*call);
  }
  if (!choice.ended()) return;
  --call->num_open;
  call->last_finish = *choice.finish();
  if (Severity(*choice.finish()) > Severity(call->finish)) call->finish = *choice.finish();
}

void TokenDispatcher::HandleCancelAll(const absl::Status& status) {
  for (auto& [id, call] : calls_) {
    if (!call->end_status) call->end_status = status;
    engine_.load()->Cancel(id);
  }
}

void TokenDispatcher::Flush() {
  for (Call* const call : touched_) {
    call->is_touched = false;
    if (call->num_open == 0) {
      Finish(call->id, *call);
    } else if (!call->is_abandoned && !call->part.empty()) {
      SendPart(*call);
    }
  }
  touched_.clear();
}

// Adds the new output tokens to the metrics. Must be called before the tokens are sent, so that the
// metrics count every token that a client has received.
void TokenDispatcher::CountGenerated() {
  if (num_generated_ > 0) metrics_.OnGeneratedTokens(std::exchange(num_generated_, 0));
}

void TokenDispatcher::SendPart(Call& call) {
  CountGenerated();
  call.session().Write(std::exchange(call.part, {}));
  call.part_bytes = 0;
}

void TokenDispatcher::Finish(RequestId id, Call& call) {
  const Time now = clock_.Now();
  Session& session = call.session();
  if (call.finish == FinishReason::kCancelled && !call.end_status && !call.is_abandoned) {
    call.finish = session.CancelReason();
  }
  CountFinish(call, now);
  absl::Status status = StatusOf(call.finish);
  if (call.finish == FinishReason::kCancelled && call.end_status) status = *call.end_status;
  if (call.finish == FinishReason::kTooLate) {
    status = WithRetryDelay(std::move(status), RetryDelayFor(engine_.load()->expected_wait()));
  }
  // Stops counting the request against --requests-max before the client receives the end of the
  // call, because the client may then send another request immediately.
  session.ReleaseSlot();
  if (call.first_token || status.ok()) {
    call.part.usage = UsageOf(call, now);
    session.Write(std::move(call.part));
  }
  session.End(std::move(status));
  stalls_.AddEnded(std::move(call.output.session), call.is_abandoned);
  calls_.erase(id);
}

OutputUsage TokenDispatcher::UsageOf(const Call& call, Time now) {
  OutputUsage usage;
  const Time arrival = call.session().arrival();
  for (const OutputChoice& choice : call.choices) usage.num_output_tokens += choice.num_tokens();
  usage.num_prompt_tokens = call.output.num_prompt_tokens;
  usage.num_cached_tokens = call.num_cached;
  usage.num_copied_tokens = call.num_copied;
  usage.num_loaded_tokens = call.num_loaded;
  if (call.queue_seconds && call.output.reads_cache) usage.miss = call.miss;
  usage.queue_seconds = call.queue_seconds.value_or(0);
  if (call.queue_seconds) usage.waits = call.waits;
  if (call.first_token) usage.first_token_seconds = ToSeconds(*call.first_token - arrival);
  usage.total_seconds = ToSeconds(now - arrival);
  return usage;
}

RequestSizes TokenDispatcher::SizesOf(const Call& call) {
  RequestSizes sizes;
  sizes.num_prompt_tokens = call.output.num_prompt_tokens;
  sizes.num_choices = call.output.num_choices;
  sizes.output_tokens_max = call.output.output_tokens_max;
  for (const OutputChoice& choice : call.choices) {
    const int64_t num_tokens = choice.num_tokens();
    sizes.num_output_tokens += num_tokens;
    sizes.longest_output_tokens = std::max(sizes.longest_output_tokens, num_tokens);
  }
  return sizes;
}

void TokenDispatcher::CountFinish(const Call& call, Time now) {
  RequestOutcome outcome;
  outcome.finish = call.finish == FinishReason::kStop ? call.last_finish : call.finish;
  outcome.total_seconds = ToSeconds(now - call.session().arrival());
  if (call.first_token) {
    if (call.queue_seconds) {
      outcome.prefill_seconds =
          ToSeconds(*call.first_token - call.session().arrival()) - *call.queue_seconds;
    }
    outcome.decode_seconds = ToSeconds(call.last_token_of_all - *call.first_token);
  }
  if (call.num_inter_tokens > 0) {
    outcome.inter_token_seconds =
        ToSeconds(call.inter_token_time) / static_cast<double>(call.num_inter_tokens);
  }
  outcome.sizes = SizesOf(call);
  metrics_.OnRequestFinished(outcome);
}

void TokenDispatcher::CheckStalls(Time now) {
  for (auto& [id, call] : calls_) {
    if (call->is_abandoned || !stalls_.IsStalled(call->session(), now)) continue;
    Abandon(*call, stalls_.Refusal());
  }
  stalls_.CheckEnded(now);
}

void TokenDispatcher::Abandon(Call& call, absl::Status status) {
  call.is_abandoned = true;
  call.session().Abandon(std::move(status));
  engine_.load()->Cancel(call.id);
}

void TokenDispatcher::BoundWaitingOutput() {
  if (*waiting_bytes_ <= options_.output_queue_bytes_max) return;
  struct Holder {
    int64_t num_bytes = 0;
    // The request of the session if the request still runs, otherwise null. Exactly one of `call`
    // and `ended` is null.
    Call* call = nullptr;
    StallWatch::EndedSession* ended = nullptr;
  };
  std::vector<Holder> holders;
  int64_t num_bytes_left = 0;
  const auto add = [&](const Session& session, Call* call, StallWatch::EndedSession* ended) {
    const auto num_bytes = static_cast<int64_t>(session.num_waiting_bytes());
    num_bytes_left += num_bytes;
    if (num_bytes > 0) holders.push_back({num_bytes, call, ended});
  };
  for (const auto& [id, call] : calls_) add(call->session(), call.get(), nullptr);
  for (StallWatch::EndedSession& ended : stalls_.ended()) add(*ended.session, nullptr, &ended);
  std::sort(holders.begin(), holders.end(),
            [](const Holder& a, const Holder& b) { return a.num_bytes > b.num_bytes; });
  const absl::Status status = WithBound(
      Refuse(Reason::kWriteStalled,
             fmt::format("the unread output of all clients exceeds output-queue-bytes-max, which "
                         "is {} bytes; the client of this call has read too slowly",
                         options_.output_queue_bytes_max)),
      options_.output_queue_bytes_max);
  for (const Holder& holder : holders) {
    if (num_bytes_left <= options_.output_queue_bytes_max) break;
    num_bytes_left -= holder.num_bytes;
    if (holder.call != nullptr) {
      Abandon(*holder.call, status);
    } else {
      holder.ended->Abandon(status);
    }
  }
}

}  // namespace incipit
