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
  int64_t num_bytes = 0;   // of the unread request, held until it is read
};

// What an unread request tells of its prompt.
struct PromptEstimate {
  int64_t num_tokens_min = 0;         // 0 if nothing is known
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
  // Reads the request. Called at most once, on a text thread.
  using Read = absl::AnyInvocable<absl::StatusOr<RequestDraft>()>;
  // Looks at the unread request; called before Start returns, if there is room for the request.
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

  // Takes a slot for `session` and checks the limits that depend on `arrival` only.
  // Returns the load of the request, and how many prompt tokens wait in the engine.
  struct Room {
    TextLoad load;
    int64_t tokens_behind = 0;
  };
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
