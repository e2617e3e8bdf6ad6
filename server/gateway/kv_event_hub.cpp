#include "server/gateway/kv_event_hub.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/session/request/request_error.h"

namespace incipit {
namespace {

constexpr Duration kLoadInterval = std::chrono::seconds(1);

absl::Status Cancelled() {
  return Refuse(Reason::kCancelled, "the client has cancelled the subscription");
}

absl::Status Stopping() { return Refuse(Reason::kDraining, "the server is stopping"); }

// Returns the sequence number of the first message: the present Unix time in units of 2^-32
// seconds. The server needs more than 2^-32 seconds for a message, so its sequence numbers rise
// more slowly than this time. Therefore, a restarted server uses greater numbers than before the
// restart.
uint64_t FirstSequence() {
  const std::chrono::nanoseconds now = UnixTime();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now);
  const std::chrono::nanoseconds rest = now - seconds;
  return (static_cast<uint64_t>(seconds.count()) << 32) +
         (static_cast<uint64_t>(rest.count()) << 32) / 1'000'000'000;
}

}  // namespace

KvEventSource SourceOf(Engine& engine, std::function<KvLoad()> load) {
  return {.listen = [&engine](KvEventListener* listener) { engine.ListenToCache(listener); },
          .report_cached = [&engine] { engine.ReportCached(); },
          .load = std::move(load)};
}

struct KvEventHub::Subscription {
  uint64_t id = 0;
  std::shared_ptr<KvSubscriber> subscriber;
  // Sequence number of the last message with cache changes that was sent to the subscriber. Before
  // the first message: the argument `start` of Subscribe.
  uint64_t sequence = 0;
  bool needs_snapshot = false;
  std::shared_ptr<const KvSnapshotMessages> snapshot;  // snapshot that is being sent, or null
  size_t next_message = 0;  // index of the next message to send, in `snapshot->messages`
  bool takes_early_load = false, load_due = true;
  uint64_t num_loads = 0;  // number of sent messages with the server's load
  bool is_sending = false, is_reset = false, is_ended = false;
  Time sending_since{};
};

void KvEventHub::Events::Clear() {
  events.clear();
  tokens.clear();
  is_lost = false;
}

KvEventHub::KvEventHub(const KvEventHubOptions& options, KvEventSource source, Metrics& metrics,
                       const Clock& clock)
    : options_(options),
      source_(std::move(source)),
      metrics_(metrics),
      clock_(clock),
      feed_(options.block_size, options.history_bytes_max, FirstSequence()) {}

KvEventHub::~KvEventHub() { Stop(); }

void KvEventHub::Start() {
  thread_ = std::thread([this] { Run(); });
}

void KvEventHub::Stop() {
  Calls calls;
  {
    MutexLock lock(mutex_);
    if (std::exchange(stopping_, true)) return;
    std::swap(calls, calls_);
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  for (const Arrival& arrival : calls.arrivals) arrival.subscriber->End(Stopping());
  for (const auto& subscription : subscriptions_) End(*subscription, Stopping());
  subscriptions_.clear();
  metrics_.SetKvEventSubscribers(0);
  if (is_listening_) source_.listen(nullptr);
}

absl::Status KvEventHub::Subscribe(uint64_t id, std::shared_ptr<KvSubscriber> subscriber,
                                   uint64_t start, bool takes_early_load) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return Stopping();
    if (num_subscribers_ >= options_.subscribers_max) {
      return WithBound(
          Refuse(Reason::kTooManyStreams,
                 fmt::format("{} gateways have subscribed to the events of the prefix cache; "
                             "kv-event-subscribers-max is {}",
                             num_subscribers_, options_.subscribers_max)),
          options_.subscribers_max);
    }
    ++num_subscribers_;
    calls_.arrivals.push_back({.id = id,
                               .start = start,
                               .subscriber = std::move(subscriber),
                               .takes_early_load = takes_early_load});
  }
  changed_.notify_one();
  return absl::OkStatus();
}

void KvEventHub::OnSent(uint64_t id, bool ok) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    calls_.sent.push_back({.id = id, .ok = ok});
  }
  changed_.notify_one();
}

void KvEventHub::Cancel(uint64_t id) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    calls_.cancelled.push_back(id);
  }
  changed_.notify_one();
}

// Allocates no memory on the engine thread, because Listen has reserved the memory of `events_`.
void KvEventHub::OnKvEvents(const KvEvents& events) {
  bool wakes = false;
  {
    MutexLock lock(mutex_);
    if (events_.is_lost) return;
    const size_t tokens_begin = events_.tokens.size();
    if (events.events.size() > options_.queue_events_max - events_.events.size() ||
        events.tokens.size() > options_.queue_tokens_max - tokens_begin) {
      events_.Clear();
      events_.is_lost = true;
    } else {
      for (const KvEvent& event : events.events) {
        events_.events.push_back(event);
        events_.events.back().tokens_begin += tokens_begin;
      }
      events_.tokens.insert(events_.tokens.end(), events.tokens.begin(), events.tokens.end());
    }
    wakes = std::exchange(is_waiting_, false);
  }
  if (wakes) changed_.notify_one();
}

void KvEventHub::Run() {
  while (Await()) Turn();
}

bool KvEventHub::Await() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    const Time now = clock_.Now();
    const bool takes_events = now >= events_due_;
    if (!calls_.empty() || now >= NextTurn() || (takes_events && !events_.empty())) break;
    // This thread does not handle events of the engine before the time `events_due_`. Until then,
    // `is_waiting_` is false, so that the engine does not wake this thread.
    is_waiting_ = takes_events;
    const Time until = takes_events ? NextTurn() : std::min(NextTurn(), events_due_);
    if (until == kNoDeadline) {
      changed_.wait(mutex_);
    } else {
      changed_.wait_until(mutex_, until);
    }
  }
  is_waiting_ = false;
  return !stopping_;
}

Time KvEventHub::NextTurn() const {
  if (!subscriptions_.empty()) return load_due_;
  return is_listening_ ? left_at_ + options_.linger : kNoDeadline;
}

void KvEventHub::Turn() {
  Calls calls;
  {
    MutexLock lock(mutex_);
    std::swap(calls, calls_);
  }
  const Time now = clock_.Now();
  for (const Sent& sent : calls.sent) HandleSent(sent);
  for (Arrival& arrival : calls.arrivals) Arrive(std::move(arrival), now);
  for (const uint64_t id : calls.cancelled) {
    if (Subscription* const subscription = Find(id)) End(*subscription, Cancelled());
  }
  CheckTime(now);
  if (now >= events_due_) HandleEvents(now);
  SendAll(now);
  RemoveEnded(now);
}

void KvEventHub::Arrive(Arrival arrival, Time now) {
  auto subscription = std::make_unique<Subscription>();
  subscription->id = arrival.id;
  subscription->subscriber = std::move(arrival.subscriber);
  subscription->sequence = arrival.start;
  subscription->needs_snapshot = arrival.start == 0;
  subscription->takes_early_load = arrival.takes_early_load;
  load_due_ = now;
  subscriptions_.push_back(std::move(subscription));
  if (arrival.start > 0 && !feed_.Follows(arrival.start)) {
    End(*subscriptions_.back(),
        absl::OutOfRangeError(fmt::format(
            "the batch of cache events with sequence number {} is unknown or too old; subscribe "
            "again with the sequence number 0",
            arrival.start)));
    return;
  }
  subscriptions_.back()->subscriber->Accept();
  if (!is_listening_) Listen();
}

void KvEventHub::HandleSent(const Sent& sent) {
  Subscription* const subscription = Find(sent.id);
  if (subscription == nullptr) return;
  subscription->is_sending = false;
  if (!sent.ok) End(*subscription, Cancelled());
}

// Handles the events of the engine only once in `batch_interval`, so that one message contains the
// changes of several steps. While the engine reports the blocks that were already cached, handles
// the events without a pause.
void KvEventHub::HandleEvents(Time now) {
  {
    MutexLock lock(mutex_);
    if (events_.empty()) return;
    std::swap(taken_, events_);
  }
  if (taken_.is_lost) {
    metrics_.OnKvEventGap(KvEventGap::kHub);
    feed_.Reset();
    if (is_listening_) Listen();
  } else if (is_listening_ && feed_.Apply({.events = taken_.events, .tokens = taken_.tokens})) {
    source_.report_cached();
  }
  taken_.Clear();
  events_due_ = feed_.is_complete() ? now + options_.batch_interval : now;
}

void KvEventHub::Listen() {
  is_listening_ = true;
  {
    MutexLock lock(mutex_);
    for (Events* const events : {&events_, &taken_}) {
      events->events.reserve(options_.queue_events_max);
      events->tokens.reserve(options_.queue_tokens_max);
    }
  }
  source_.listen(this);
}

void KvEventHub::CheckTime(Time now) {
  if (subscriptions_.empty()) {
    if (!is_listening_ || now < left_at_ + options_.linger) return;
    is_listening_ = false;
    source_.listen(nullptr);
    feed_.Reset();
    return;
  }
  if (now < load_due_) return;
  load_due_ = now + kLoadInterval;
  load_ = source_.load();
  for (const auto& subscription : subscriptions_) {
    subscription->load_due = true;
    if (!load_.status.ok()) {
      End(*subscription, load_.status);
    } else if (subscription->is_sending && !subscription->is_reset &&
               now - subscription->sending_since >= options_.write_stall_timeout) {
      subscription->is_reset = true;
      subscription->subscriber->Reset();
    }
  }
}

void KvEventHub::SendAll(Time now) {
  for (const auto& subscription : subscriptions_) {
    if (subscription->is_ended || subscription->is_sending) continue;
    KvMessage message = NextMessage(*subscription);
    if (message == nullptr) continue;
    subscription->is_sending = true;
    subscription->sending_since = now;
    subscription->subscriber->Send(std::move(message));
  }
}

KvMessage KvEventHub::NextMessage(Subscription& subscription) {
  if (!subscription.needs_snapshot && subscription.snapshot == nullptr &&
      !feed_.Follows(subscription.sequence)) {
    subscription.needs_snapshot = true;
    metrics_.OnKvEventGap(KvEventGap::kSubscriber);
  }
  if (subscription.needs_snapshot && feed_.is_complete()) {
    subscription.snapshot = feed_.Snapshot();
    subscription.next_message = 0;
    subscription.needs_snapshot = subscription.snapshot == nullptr;
  }
  if (subscription.snapshot != nullptr) {
    const auto& messages = subscription.snapshot->messages;
    KvMessage message = messages[subscription.next_message++];
    if (subscription.next_message == messages.size()) {
      subscription.sequence = subscription.snapshot->sequence;
      subscription.snapshot.reset();
    }
    return message;
  }
  if (subscription.load_due && (subscription.sequence > 0 || subscription.takes_early_load)) {
    return LoadMessage(subscription);
  }
  if (subscription.needs_snapshot || subscription.sequence == feed_.sequence()) return nullptr;
  return feed_.After(subscription.sequence++);
}

KvMessage KvEventHub::LoadMessage(Subscription& subscription) const {
  subscription.load_due = false;
  smg::grpc::common::KvEventBatch batch;
  *batch.mutable_load() = load_.load;
  batch.mutable_load()->set_sample(++subscription.num_loads);
  batch.mutable_load()->set_load_only(true);
  return Serialize(batch, subscription.sequence);
}

KvEventHub::Subscription* KvEventHub::Find(uint64_t id) {
  const auto it = std::ranges::find_if(subscriptions_, [id](const auto& subscription) {
    return subscription->id == id && !subscription->is_ended;
  });
  return it == subscriptions_.end() ? nullptr : it->get();
}

void KvEventHub::End(Subscription& subscription, const absl::Status& status) {
  if (std::exchange(subscription.is_ended, true)) return;
  subscription.subscriber->End(status);
}

void KvEventHub::RemoveEnded(Time now) {
  const size_t num_ended = std::erase_if(
      subscriptions_, [](const auto& subscription) { return subscription->is_ended; });
  metrics_.SetKvEventSubscribers(static_cast<int64_t>(subscriptions_.size()));
  if (num_ended == 0) return;
  if (subscriptions_.empty()) left_at_ = now;
  MutexLock lock(mutex_);
  num_subscribers_ -= static_cast<int32_t>(num_ended);
}

}  // namespace incipit
