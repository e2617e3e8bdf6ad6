// Starts requests. A thread that renders chat templates and tokenizes also parses each request and
// submits the request to the engine.
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
#include "server/session/prompt_encoder.h"
#include "server/session/random_source.h"
#include "server/session/request/checked_request.h"
#include "server/session/request_counter.h"
#include "server/session/session.h"
#include "server/session/text_pool.h"
#include "server/session/token_dispatcher.h"

namespace incipit {

// Properties of a request that are known before its message is parsed.
struct RequestArrival {
  // Name of the client's connection. The TextPool shares its threads between connections.
  std::string connection;
  std::string tenant;     // name of the tenant, already checked by CheckTenant
  int64_t num_bytes = 0;  // size of the request's message in bytes
};

// Properties of a prompt that are known before the message of the request is parsed.
struct PromptEstimate {
  int64_t num_tokens_min = 0;  // lower bound for the number of prompt tokens; 0: unknown
  // Name of the request field with the prompt, for error messages.
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

// Starts requests: parses and checks each request, and submits the request to the engine.
// Thread-safe. No function of SessionStarter blocks.
class SessionStarter {
 public:
  // A callback that parses the message of a request. Called at most once, on a thread that renders
  // chat templates and tokenizes.
  using Read = absl::AnyInvocable<absl::StatusOr<RequestDraft>()>;
  // A callback that receives the token ids of a prompt.
  using OnTokens = absl::AnyInvocable<void(std::span<const TokenId>)>;
  // One prompt of a call, and the session for the output of this prompt.
  struct Prompt {
    std::shared_ptr<Session> session;
    RequestDraft draft;
    OnTokens on_tokens = nullptr;  // receives the token ids of the prompt; may be null
  };
  // A callback that returns all prompts of a call. The first Prompt must contain the session that
  // was passed to StartAll. Called at most once, on a thread that renders chat templates and
  // tokenizes.
  using ReadAll = absl::AnyInvocable<absl::StatusOr<std::vector<Prompt>>()>;
  // A callback that estimates the prompt size of a request whose message is not parsed yet. Start
  // calls the callback at most once, and only before Start returns.
  using Estimate = absl::FunctionRef<PromptEstimate()>;

  // A task for RunText. The argument is OK if the task must run, or the error for which the task is
  // dropped.
  using TextTask = absl::AnyInvocable<void(const absl::Status&)>;

  explicit SessionStarter(const SessionContext& context);

  // Returns OK if the engine accepts requests. Otherwise returns DRAINING or ENGINE_FAILED.
  absl::Status CheckOpen() const;
  // Starts a request with one prompt. Returns immediately. A text thread (which renders chat
  // templates and tokenizes) then calls `read`, checks the request and submits the request to the
  // engine. An error ends `session`.
  void Start(std::shared_ptr<Session> session, RequestArrival arrival, Estimate estimate,
             Read read);
  // Starts a call with several prompts. Returns immediately. A text thread (which renders chat
  // templates and tokenizes) then calls `read`, checks all prompts, and submits each prompt to the
  // engine.
  // - If a check fails, no prompt is submitted. `session` (the session of the first prompt) ends
  //   with the error, and no other session ends.
  // - If the engine refuses a prompt, the session of this prompt ends with the error, and no later
  //   prompt is submitted. The caller must cancel the sessions of the other prompts.
  void StartAll(std::shared_ptr<Session> session, RequestArrival arrival, Estimate estimate,
                ReadAll read);
  // Ends `session` with the error `status`. The metrics count the request as cancelled if the
  // client has cancelled, and otherwise as refused. `tenant` is empty if the server does not know
  // the tenant of the request.
  void Refuse(Session& session, const absl::Status& status, std::string_view tenant = {}) const;

  // Returns an error with `reason`, `message`, the exceeded limit `limit`, and a delay after which
  // the client may send the request again.
  absl::Status Busy(Reason reason, std::string_view message, int64_t limit) const;
  // Queues `task` for a thread that renders chat templates and tokenizes. This thread calls `task`
  // with OK. If the queue is full, `task` is called with an error. `tokens_behind` is the number of
  // prompt tokens in the engine's queue.
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

  // The result of CheckRoom for a request that exceeds no limit: the numbers that RunText needs.
  struct Room {
    // Number of tasks, bytes and prompt tokens that the request adds to the queue of the TextPool
    // (threads that render chat templates and tokenize).
    TextLoad load;
    int64_t tokens_behind = 0;  // number of prompt tokens of the requests in the engine's queue
  };
  // Checks all limits that do not depend on the content of the message. Counts the request of
  // `session` against --requests-max. Returns an error for the client if a limit is exceeded.
  absl::StatusOr<Room> CheckRoom(const RequestArrival& arrival, Session& session,
                                 Estimate estimate) const;
  // Parses and checks the request of `job`, and submits the request to the engine. Runs on a thread
  // that renders chat templates and tokenizes.
  void Prepare(Job job);
  absl::StatusOr<std::vector<Prepared>> ReadAndCheck(Job& job) const;
  absl::StatusOr<CheckedRequest> TakeSlotAndCheck(const Session& first, Prompt& prompt) const;
  absl::StatusOr<CheckedRequest> Check(Prompt& prompt) const;
  // Counts the request of `session` against --requests-max. Returns QUEUE_FULL if the maximum
  // number of requests is reached.
  absl::Status TakeSlot(Session& session) const;
  // Returns true if a new request must wait in the engine's queue until another request has ended.
  bool IsQueueHeldUp(const EngineLoad& load) const;
  // Returns QUEUE_TOO_LONG if the request would probably wait in the engine's queue until after its
  // deadline. With the scheduling policy `fair`, always returns OK.
  absl::Status CheckDeadline(const Session& session) const;
  absl::Status Submit(const std::shared_ptr<Session>& session, std::string_view tenant,
                      CheckedRequest checked);
  // Converts an error of Engine::Submit to the error that the client receives.
  absl::Status SubmitError(const absl::Status& status) const;
  // Returns ENGINE_FAILED if the engine has failed; otherwise DRAINING.
  absl::Status Closed(const EngineLoad& load) const;
  // Returns the error for a call that exceeds `limit`, a limit of the queue of the TextPool
  // (threads that render chat templates and tokenize).
  absl::Status TextQueueFull(TextQueueLimit limit) const;

  const SessionContext context_;
  RandomSource random_;  // generates the names and seeds of requests
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace incipit
