// Starts a session for each request that arrives: checks limits, parses the request on a text
// thread (a thread that prepares requests), and submits the request to the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// Properties of a request that are known when the request arrives, before the message is parsed.
struct RequestArrival {
  // Name of the client's connection. The text threads (threads that prepare requests) process one
  // request of each connection in turn.
  std::string connection;
  std::string tenant;     // tenant name, which CheckTenant has checked
  int64_t num_bytes = 0;  // size of the serialized request in bytes
};

// Properties of a prompt that are known before the message with the prompt is parsed.
struct PromptEstimate {
  int64_t num_tokens_min = 0;  // minimum number of prompt tokens; 0: unknown
  // Name of the request field that contains the prompt, for error messages.
  std::string_view field = "prompt";
};

// The objects that a SessionStarter uses. REQUIRES: all objects outlive the SessionStarter.
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

// Starts a session for each request that arrives. Thread-safe. No function waits.
class SessionStarter {
 public:
  // A callback that parses the message of the request. Called at most once, on a text thread (a
  // thread that prepares requests for the engine).
  using Read = absl::AnyInvocable<absl::StatusOr<RequestDraft>()>;
  // A callback that receives the token ids of a prompt.
  using OnTokens = absl::AnyInvocable<void(std::span<const TokenId>)>;
  // One of the prompts of a call, and the session that sends its output.
  struct Prompt {
    std::shared_ptr<Session> session;
    RequestDraft draft;
    OnTokens on_tokens = nullptr;  // null: nothing needs the token ids
  };
  // As Read, for a call with several prompts. The first prompt has the session that was passed to
  // StartAll.
  using ReadAll = absl::AnyInvocable<absl::StatusOr<std::vector<Prompt>>()>;
  // A callback that estimates the prompt size of a request whose message is not parsed yet. Start
  // calls the callback at most once, before Start returns.
  using Estimate = absl::FunctionRef<PromptEstimate()>;

  // A task of RunText.
  using TextTask = absl::AnyInvocable<void(const absl::Status&)>;

  explicit SessionStarter(const SessionContext& context);

  // Returns OK if the engine accepts requests; otherwise DRAINING or ENGINE_FAILED.
  absl::Status CheckOpen() const;
  // Checks limits and queues a task for a text thread (a thread that prepares requests). The task
  // calls `read`, checks the request and submits the request to the engine. If a check fails, ends
  // `session` with the error.
  void Start(std::shared_ptr<Session> session, RequestArrival arrival, Estimate estimate,
             Read read);
  // As Start, for a call with several prompts. Submits no prompt if the check of one of the prompts
  // fails; then ends only `session`. If the engine refuses a prompt, ends the session of this
  // prompt, and does not submit the prompts after it. The caller must then cancel the others.
  void StartAll(std::shared_ptr<Session> session, RequestArrival arrival, Estimate estimate,
                ReadAll read);
  // Ends `session` with `status`. The metrics count the request as cancelled if the client has
  // cancelled, otherwise as refused.
  void Refuse(Session& session, const absl::Status& status) const;

  // Returns an error with `reason`, `message`, the bound `limit` and a retry delay.
  absl::Status Busy(Reason reason, std::string_view message, int64_t limit) const;
  // Queues `task` for a text thread (a thread that prepares requests), which calls `task` with OK.
  // If the queue is full, calls `task` with an error. `tokens_behind` is the number of prompt
  // tokens in the queue of the engine.
  void RunText(std::string_view connection, const TextLoad& load, int64_t tokens_behind,
               TextTask task) const;

 private:
  struct Job {
    std::shared_ptr<Session> session;
    RequestArrival arrival;
    ReadAll read;
  };
  // A prompt that passed all checks.
  struct Prepared {
    std::shared_ptr<Session> session;
    CheckedRequest request;
  };

  // The result of CheckRoom for a request that exceeds no limit.
  struct Room {
    TextLoad load;  // tasks, bytes and prompt tokens that the request adds to the queue of TextPool
    int64_t tokens_behind = 0;  // number of prompt tokens of the requests in the engine's queue
  };
  // Checks the limits that can be checked before the message is parsed, and stores in `session`
  // that the request counts against --requests-max. Returns an error for the client if a limit is
  // exceeded.
  absl::StatusOr<Room> CheckRoom(const RequestArrival& arrival, Session& session,
                                 Estimate estimate) const;
  // Parses and checks the request of `job`, and submits the request to the engine. Runs on a text
  // thread.
  void Prepare(Job job);
  absl::StatusOr<std::vector<Prepared>> ReadAndCheck(Job& job) const;
  absl::StatusOr<CheckedRequest> Check(Prompt& prompt) const;
  // Counts the request of `session` in RequestCounter, or returns QUEUE_FULL.
  absl::Status TakeSlot(Session& session) const;
  // Returns true if a new request must wait in the engine's queue until another request ends.
  bool IsQueueHeldUp(const EngineLoad& load) const;
  // Returns QUEUE_TOO_LONG if the request would probably wait in the queue until after its
  // deadline.
  absl::Status CheckDeadline(const Session& session) const;
  absl::Status Submit(const std::shared_ptr<Session>& session, std::string_view tenant,
                      CheckedRequest checked);
  // Converts an error of Engine::Submit to the error that the client receives.
  absl::Status SubmitError(const absl::Status& status) const;
  // Returns ENGINE_FAILED if the engine has failed; otherwise DRAINING.
  absl::Status Closed(const EngineLoad& load) const;
  // Returns the error of a call for which the queue of the text threads has no room.
  absl::Status TextQueueFull(TextQueueLimit limit) const;
  uint64_t RandomBits();

  const SessionContext context_;
  // Random value from which the server generates labels and seeds of requests.
  const uint64_t random_key_;
  std::atomic<uint64_t> num_random_{0};
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace incipit
