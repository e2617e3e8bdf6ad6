// Sends the changes of the prefix cache to gateways. One thread keeps a copy of the cache's block
// list and serves all gateways. Therefore, neither a snapshot (list of all blocks) nor a slow
// gateway delays the engine.
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

// Sends the messages of one subscription to a gateway. The KvEventHub calls only one function at a
// time.
class KvSubscriber {
 public:
  virtual ~KvSubscriber() = default;
  // Reports that the subscription has begun. The KvEventHub calls Accept once, before the first
  // Send. If the KvEventHub refuses the subscription, the KvEventHub calls only End.
  virtual void Accept() = 0;
  // Starts to send `message`. After the message is sent, the subscriber must call
  // KvEventHub::OnSent. Until then, the KvEventHub does not call Send again.
  virtual void Send(KvMessage message) = 0;
  // Ends the subscription with `status`. The KvEventHub calls End at most once, and calls no
  // function of the subscriber after End.
  virtual void End(const absl::Status& status) = 0;
  // Aborts a Send that takes too long. The subscriber must then call KvEventHub::Cancel.
  virtual void Reset() = 0;
};

// The load of the server, for gateways that receive the changes of the prefix cache.
struct KvLoad {
  smg::grpc::common::EngineLoad load;
  // Status of the server. If the status is an error (for example, because the server drains), all
  // subscriptions end.
  absl::Status status;
};

// Functions of the engine that a KvEventHub (the sender of cache changes to gateways) calls.
struct KvEventSource {
  // Starts or restarts the reports of cache changes to the given listener. Null stops the reports.
  // Calls Engine::ListenToCache.
  std::function<void(KvEventListener*)> listen;
  std::function<void()> report_cached;  // Engine::ReportCached
  std::function<KvLoad()> load;
};

// Returns a KvEventSource whose functions `listen` and `report_cached` call `engine`. The function
// `load` returns the load of the server. REQUIRES: `engine` exists until KvEventHub::Stop returns.
KvEventSource SourceOf(Engine& engine, std::function<KvLoad()> load);

struct KvEventHubOptions {
  int32_t block_size = 16;
  int32_t subscribers_max = 16;
  // Maximum time for sending one message. The KvEventHub disconnects a subscriber that does not
  // read a message within this time.
  Duration write_stall_timeout = std::chrono::seconds(30);
  // Maximum number of events in the queue from the engine to the thread of the KvEventHub, and
  // maximum number of tokens of all these events.
  size_t queue_events_max = 32'768, queue_tokens_max = 524'288;
  // Maximum total size, in bytes, of the latest messages with cache changes. The KvEventHub keeps
  // these messages for subscribers that connect again.
  size_t history_bytes_max = 16 << 20;
  // Minimum time between two batches (messages with changes of the prefix cache). A batch can
  // contain the changes of several steps of the engine.
  Duration batch_interval = std::chrono::milliseconds(5);
  // Time from the end of the last subscription until the KvEventHub makes the engine stop its
  // reports of cache changes.
  Duration linger = std::chrono::seconds(60);
};

// Sends the changes of the prefix cache to subscribers (gateways). Also sends snapshots (lists of
// all cached blocks), from a copy of the cache's block list.
//
// When the first subscriber arrives, the engine begins to report changes. The engine also reports,
// in parts, the blocks that are already cached. When the copy is complete, a new subscriber gets a
// snapshot. Later changes follow as batches with consecutive sequence numbers. If a full queue
// loses events of the engine, the KvEventHub builds the copy again. If a subscriber misses batches
// that the KvEventHub no longer has, the subscriber gets a new snapshot.
//
// The engine thread calls OnKvEvents. Subscribe, OnSent and Cancel are thread-safe.
class KvEventHub final : public KvEventListener {
 public:
  // REQUIRES: `metrics` and `clock` outlive the KvEventHub, and the functions of `source` can be
  // called until Stop returns.
  KvEventHub(const KvEventHubOptions& options, KvEventSource source, Metrics& metrics,
             const Clock& clock);
  ~KvEventHub() override;

  // Starts the thread of the KvEventHub.
  void Start();
  // Stops the thread of the KvEventHub, then ends all subscriptions with UNAVAILABLE. Later calls
  // of Subscribe return an error. A second call of Stop does nothing.
  void Stop();

  // Returns a number for a new subscriber. Each call returns a different number.
  uint64_t NewId() { return next_id_++; }
  // Adds `subscriber` under the number `id`. The subscriber has applied all batches up to the
  // sequence number `start`, or no batch if `start` is 0. `takes_early_load` is true if the
  // subscriber can read messages with the server's load before the first batch of cache changes.
  // Returns RESOURCE_EXHAUSTED if there are too many subscribers, and UNAVAILABLE after Stop. After
  // an error, the subscriber is not added.
  absl::Status Subscribe(uint64_t id, std::shared_ptr<KvSubscriber> subscriber, uint64_t start,
                         bool takes_early_load);
  // Reports the end of the last Send to the subscriber `id`. `ok` is false if the connection is
  // broken.
  void OnSent(uint64_t id, bool ok);
  // Reports that the client of subscriber `id` has cancelled the call.
  void Cancel(uint64_t id);

  void OnKvEvents(const KvEvents& events) override;

  // Handles the calls of other threads and the events of the engine that have arrived, then sends
  // messages to subscribers. The thread that Start creates calls Turn. Tests call Turn directly.
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
  // Calls of Subscribe, OnSent and Cancel that the thread of the KvEventHub must still handle.
  struct Calls {
    std::vector<Arrival> arrivals;
    std::vector<Sent> sent;
    std::vector<uint64_t> cancelled;

    bool empty() const { return arrivals.empty() && sent.empty() && cancelled.empty(); }
  };
  // Events of the engine that the thread of the KvEventHub must still handle. Listen reserves the
  // memory, so that the engine thread allocates no memory.
  struct Events {
    std::vector<KvEvent> events;
    std::vector<TokenId> tokens;
    bool is_lost = false;  // true: the queue was full, and all its events were dropped

    bool empty() const { return events.empty() && !is_lost; }
    void Clear();
  };
  struct Subscription;

  void Run();
  // Waits until the function Turn must be called, for example for a new call or new events. Returns
  // false if the thread of the KvEventHub must end.
  bool Await() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the time at which Turn must be called even if no call and no event has arrived.
  Time NextTurn() const;

  void Arrive(Arrival arrival, Time now);
  void HandleSent(const Sent& sent);
  void HandleEvents(Time now);
  // Makes the engine start or restart its reports of cache changes.
  void Listen();
  // Once a second, reads the load of the server and disconnects subscribers that do not read. If
  // there are no subscribers for the time `linger`, makes the engine stop its reports of cache
  // changes.
  void CheckTime(Time now);
  // Sends the next message, if there is any, to each subscriber whose previous message was sent.
  void SendAll(Time now);
  KvMessage NextMessage(Subscription& subscription);
  // Returns a message with the load of the server and without events. Clears `load_due` of
  // `subscription`.
  KvMessage LoadMessage(Subscription& subscription) const;
  Subscription* Find(uint64_t id);
  void End(Subscription& subscription, const absl::Status& status);
  void RemoveEnded(Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  const KvEventHubOptions options_;
  const KvEventSource source_;
  Metrics& metrics_;
  const Clock& clock_;
  std::atomic<uint64_t> next_id_{1};

  // Only the thread of the KvEventHub uses the members from `taken_` to `events_due_`.
  Events taken_;
  KvEventFeed feed_;
  std::vector<std::unique_ptr<Subscription>> subscriptions_;
  bool is_listening_ = false;
  KvLoad load_;
  // Time at which the next message with the server's load is due, and time at which the last
  // subscription ended.
  Time load_due_{}, left_at_{};
  Time events_due_{};  // time before which Turn handles no events of the engine

  Mutex mutex_;
  std::condition_variable_any changed_;
  Calls calls_ ABSL_GUARDED_BY(mutex_);
  Events events_ ABSL_GUARDED_BY(mutex_);
  int32_t num_subscribers_ ABSL_GUARDED_BY(mutex_) = 0;
  // True while the thread of the KvEventHub waits for events. If false, OnKvEvents does not wake
  // the thread.
  bool is_waiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace incipit
