// Starts sessions: checks limits when a request arrives, prepares the request on a text thread, and
// submits the request to the engine. The TokenDispatcher then owns the session.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/options.h"
#include "server/session/checked_request.h"
#include "server/session/prompt_encoder.h"
#include "server/session/request_counter.h"
#include "server/session/session.h"
#include "server/session/text_pool.h"
#include "server/session/token_dispatcher.h"

namespace incipit {

// The properties of a request that are known before the request is read.
struct RequestArrival {
  std::string connection;  // connection of the request; text threads serve connections in turn
  std::string tenant;      // tenant name, checked by CheckTenant
  int64_t num_bytes = 0;   // size of the unread request in bytes
};

// The properties of a prompt that are known before the request is read.
struct PromptEstimate {
  int64_t num_tokens_min = 0;         // lower bound of the number of prompt tokens; 0: unknown
  std::string_view field = "prompt";  // name of the field of the prompt, for errors
};

// The objects that a SessionStarter uses. All objects must outlive the starter.
struct SessionContext {
  const Options& options;
  const ServedModel& model;
  const PromptEncoder& encoder;
  Engine& engine;
  TokenDispatcher& dispatcher;
  TextPool& text_pool;
  RequestCounter& requests;
  Metrics& metrics;
  const Clock& clock;
};

// Starts the sessions of arriving requests. Thread-safe. No function blocks.
class SessionStarter {
 public:
  // A callback that reads the request. Called at most once, on a text thread.
  using Read = absl::AnyInvocable<absl::StatusOr<RequestDraft>()>;
  // A callback that returns the estimate for the unread request. Start calls the callback before
  // Start returns, and only if the number of requests is below --requests-max.
  using Estimate = absl::FunctionRef<PromptEstimate()>;

  explicit SessionStarter(const SessionContext& context);

  // Returns DRAINING or ENGINE_FAILED if the engine accepts no requests; otherwise OK.
  absl::Status CheckOpen() const;
  // Checks limits, then queues the rest of the start for a text thread. The text thread reads,
  // checks and submits the request. If any check fails, `session` ends with the error.
  void Start(std::shared_ptr<Session> session, RequestArrival arrival, Estimate estimate,
             Read read);
  // Ends `session` with `status` and counts a rejection. If the client has cancelled the request,
  // counts a cancelled request instead.
  void Refuse(Session& session, const absl::Status& status) const;

  // Returns an error with `reason` and a retry delay. The message is "too many `what` `limit`".
  absl::Status Busy(Reason reason, std::string_view what, int64_t limit) const;
  // Returns TEXT_QUEUE_FULL with a retry delay.
  absl::Status TextQueueFull(TextQueueLimit limit) const;

 private:
  struct Job {
    std::shared_ptr<Session> session;
    RequestArrival arrival;
    Read read;
  };

  // The result of CheckRoom for a request that may be queued.
  struct Room {
    TextLoad load;              // load of the request on the text queue
    int64_t tokens_behind = 0;  // number of prompt tokens that wait in the engine
  };
  // Adds a slot of RequestCounter to `session`, and checks the limits that can be checked before
  // the request is read. Returns an error for the client if a limit is exceeded.
  absl::StatusOr<Room> CheckRoom(const RequestArrival& arrival, Session& session,
                                 Estimate estimate) const;
  // Reads, checks and submits the request of `job`. Runs on a text thread.
  void Prepare(Job job);
  absl::StatusOr<CheckedRequest> ReadAndCheck(Job& job) const;
  // Returns true if waiting requests can start only after other requests have ended.
  bool IsQueueHeldUp(const EngineLoad& load) const;
  // Returns QUEUE_TOO_LONG if the expected time in the queue exceeds the time to the deadline.
  absl::Status CheckDeadline(const Session& session) const;
  absl::Status Submit(const Job& job, CheckedRequest checked);
  // Converts an error of Engine::Submit to an error for the client.
  absl::Status SubmitError(const absl::Status& status) const;
  // Returns ENGINE_FAILED if the engine has failed, otherwise DRAINING.
  absl::Status Closed(const EngineLoad& load) const;
  absl::Status QueueFull(std::string_view message) const;
  uint64_t RandomBits();

  const SessionContext context_;
  const uint64_t random_key_;  // key of the random labels and seeds that the server generates
  std::atomic<uint64_t> num_random_{0};
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace incipit
