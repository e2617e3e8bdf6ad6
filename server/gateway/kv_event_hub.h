// Distributes the changes of the prefix cache to gateways. One hub thread mirrors the cache and
// serves all subscribers, so neither a snapshot nor a slow subscriber delays the engine.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "server/gateway/kv_batch.h"
#include "server/gateway/kv_event_feed.h"
#include "server/metrics/metrics.h"

namespace incipit {

// Receives the messages of one subscription. Only the hub thread calls the functions.
class KvSubscriber {
 public:
  virtual ~KvSubscriber() = default;
  // Sends `message`. When the message is sent, the subscriber must call KvEventHub::OnSent. Until
  // then, the hub sends no other message.
  virtual void Send(KvMessage message) = 0;
  // Ends the subscription with `status`. Called at most once, and no function is called later.
  virtual void End(const absl::Status& status) = 0;
  // Aborts a Send that takes too long. The subscriber must then call KvEventHub::Cancel.
  virtual void Reset() = 0;
};

// The load of the server, for subscribers.
struct KvLoad {
  smg::grpc::common::EngineLoad load;
  absl::Status status;  // error: the subscriptions end, for example because the server drains
};

// The functions of the engine that the hub uses.
struct KvEventSource {
  // Starts (or restarts) or stops the events to `listener`; null stops (Engine::ListenToCache).
  std::function<void(KvEventListener*)> listen;
  std::function<void()> report_cached;  // Engine::ReportCached
  std::function<KvLoad()> load;
};

// Returns the functions of `engine`, with `load` as the source of the load. REQUIRES: `engine`
// exists until KvEventHub::Stop returns.
KvEventSource SourceOf(Engine& engine, std::function<KvLoad()> load);

struct KvEventHubOptions {
  int32_t block_size = 16;
  int32_t subscribers_max = 16;
  // Time after which a subscriber that does not read a message is disconnected.
  Duration write_stall_timeout = std::chrono::seconds(30);
  // Maximum numbers of events, and of tokens of these events, between the engine and the hub
  // thread.
  size_t queue_events_max = 32'768, queue_tokens_max = 524'288;
  size_t history_bytes_max = 16 << 20;  // maximum size of the batches for subscribers that resume
  // Minimum time between two batches, in which the hub collects the changes of several steps.
  Duration batch_interval = std::chrono::milliseconds(5);
  // Time for which the mirror stays up to date after the last subscriber has left.
  Duration linger = std::chrono::seconds(60);
};

// Mirrors the prefix cache while there are subscribers, and sends changes and snapshots to them.
//
// The hub starts to listen to the engine when the first subscriber arrives, and then reads the
// present contents of the cache in parts. A subscriber gets a snapshot when the mirror is complete.
// Later changes follow as batches with consecutive sequence numbers. If events are lost because a
// queue is full, the mirror is read again. A subscriber that lags behind the history, or behind
// lost events, gets a new snapshot.
//
// OnKvEvents is called by the engine thread. Subscribe, OnSent and Cancel are thread-safe.
class KvEventHub final : public KvEventListener {
 public:
  // REQUIRES: `metrics` and `clock` outlive the hub, and the functions of `source` can be called
  // until Stop returns.
  KvEventHub(const KvEventHubOptions& options, KvEventSource source, Metrics& metrics,
             const Clock& clock);
  ~KvEventHub() override;

  // Starts the hub thread.
  void Start();
  // Ends all subscriptions with UNAVAILABLE, then stops the hub thread. Later subscriptions are
  // refused. A second call does nothing.
  void Stop();

  // Returns a number for a new subscriber, which is different from all other numbers.
  uint64_t NewId() { return next_id_++; }
  // Adds the subscriber `id`, which has applied all batches up to the sequence number `start` (0:
  // none). `takes_early_load` is true if the subscriber reads the load before the first batch.
  // Returns RESOURCE_EXHAUSTED if there are too many subscribers, and UNAVAILABLE after Stop; the
  // subscriber is then not added.
  absl::Status Subscribe(uint64_t id, std::shared_ptr<KvSubscriber> subscriber, uint64_t start,
                         bool takes_early_load);
  // Reports that the last message of subscriber `id` was sent (`ok`), or that its connection is
  // broken.
  void OnSent(uint64_t id, bool ok);
  // Reports that the client of subscriber `id` has cancelled the call.
  void Cancel(uint64_t id);

  void OnKvEvents(const KvEvents& events) override;

  // Handles everything that has arrived. The hub thread calls Turn; tests without a hub thread call
  // Turn instead.
  void Turn();

 private:
  struct Arrival {
    uint64_t id = 0, start = 0;
    std::shared_ptr<KvSubscriber> subscriber;
    bool takes_early_load = false;
  };
  struct Sent {
    uint64_t id = 0;
    bool ok = false;
  };
  // Calls of other threads, for the hub thread.
  struct Calls {
    std::vector<Arrival> arrivals;
    std::vector<Sent> sent;
    std::vector<uint64_t> cancelled;

    bool empty() const { return arrivals.empty() && sent.empty() && cancelled.empty(); }
  };
  // Events of the engine, for the hub thread. The memory is reserved before the engine adds events.
  struct Events {
    std::vector<KvEvent> events;
    std::vector<TokenId> tokens;
    bool is_lost = false;  // true: the queue was full, and events were lost

    bool empty() const { return events.empty() && !is_lost; }
    void Clear();
  };
  struct Subscription;

  void Run();
  // Waits until Turn has work to do. Returns false if the thread must end.
  bool Await() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the time at which Turn must be called even if nothing has arrived.
  Time NextTurn() const;

  void Arrive(Arrival arrival, Time now);
  void HandleSent(const Sent& sent);
  void HandleEvents(Time now);
  // Starts or restarts the events of the engine.
  void Listen();
  // Reads the load if a load record is due, and ends subscriptions that do not read.
  void CheckTime(Time now);
  // Sends the next message of each subscription that has sent its last message.
  void SendAll(Time now);
  KvMessage NextMessage(Subscription& subscription);
  // Returns a message with the load and no events, or null if the subscriber cannot read it yet.
  KvMessage LoadMessage(Subscription& subscription) const;
  Subscription* Find(uint64_t id);
  void End(Subscription& subscription, const absl::Status& status);
  void RemoveEnded(Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  const KvEventHubOptions options_;
  const KvEventSource source_;
  Metrics& metrics_;
  const Clock& clock_;
  std::atomic<uint64_t> next_id_{1};

  // Only the hub thread uses the members from `taken_` to `events_due_`.
  Events taken_;
  KvEventFeed feed_;
  std::vector<std::unique_ptr<Subscription>> subscriptions_;
  bool is_listening_ = false;
  KvLoad load_;
  // Times of the next load record, and of the end of the last subscription.
  Time load_due_{}, left_at_{};
  Time events_due_{};  // Turn takes no events before this time

  Mutex mutex_;
  std::condition_variable_any changed_;
  Calls calls_ ABSL_GUARDED_BY(mutex_);
  Events events_ ABSL_GUARDED_BY(mutex_);
  int32_t num_subscribers_ ABSL_GUARDED_BY(mutex_) = 0;
  // True while the hub thread waits for events. The engine wakes the thread only then.
  bool is_waiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace incipit
