// A request from its arrival to the engine: refused by what costs nothing first, prepared on a text
// thread, then submitted. From there on its session belongs to the TokenDispatcher.
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

// What is known of a request before anyone has read it.
struct RequestArrival {
  std::string connection;  // that it came by: text threads serve connections in turn
  std::string tenant;      // checked by CheckTenant
  int64_t num_bytes = 0;   // of the unread request, held until it is read
};

// What an unread request tells of its prompt.
struct PromptEstimate {
  int64_t num_tokens_min = 0;         // 0 if nothing is known
  std::string_view field = "prompt";  // where the prompt stands
};

// Everything outlives the starter.
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

// Thread-safe. No function waits.
class SessionStarter {
 public:
  // Reads the request; called once, on a text thread.
  using Read = absl::AnyInvocable<absl::StatusOr<RequestDraft>()>;
  // Looks at the unread request; called before Start returns, if there is room for the request.
  using Estimate = absl::FunctionRef<PromptEstimate()>;

  explicit SessionStarter(const SessionContext& context);

  // An error if the engine takes no requests: DRAINING or ENGINE_FAILED.
  absl::Status CheckOpen() const;
  // Ends the session with what the request becomes: refused at once, refused by a text thread, or
  // submitted. `session` ends in any case.
  void Start(std::shared_ptr<Session> session, RequestArrival arrival, Estimate estimate,
             Read read);
  // Counts the refusal and ends the session with `status`.
  void Refuse(Session& session, const absl::Status& status) const;

  // An error of a limit on how much is going on at a time, with a retry delay.
  absl::Status Busy(Reason reason, std::string_view what, int64_t limit) const;
  absl::Status TextQueueFull(TextQueueLimit limit) const;

 private:
  struct Job {
    std::shared_ptr<Session> session;
    RequestArrival arrival;
    Read read;
  };

  // Takes a place for the session and checks the limits that need no look at the request itself.
  // Returns the load of the request, and how many prompt tokens wait in the engine.
  struct Room {
    TextLoad load;
    int64_t tokens_behind = 0;
  };
  absl::StatusOr<Room> CheckRoom(const RequestArrival& arrival, Session& session,
                                 Estimate estimate) const;
  void Prepare(Job job);
  absl::StatusOr<CheckedRequest> ReadAndCheck(Job& job) const;
  // True if the requests that wait do so for others to end, rather than for the next step.
  bool IsQueueHeldUp(const EngineLoad& load) const;
  // An error if the queue is likely to take longer than the time that is left.
  absl::Status CheckDeadline(const Session& session) const;
  absl::Status Submit(const Job& job, CheckedRequest checked);
  absl::Status SubmitError(const absl::Status& status) const;
  absl::Status Closed(const EngineLoad& load) const;
  absl::Status QueueFull(std::string_view message) const;
  uint64_t RandomBits();

  const SessionContext context_;
  const uint64_t random_key_;  // of the labels and seeds that clients leave to the server
  std::atomic<uint64_t> num_random_{0};
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace incipit
