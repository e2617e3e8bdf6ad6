// Handles one HTTP request for completions or chat completions. Starts a session (an object that
// sends the output of one prompt) for each prompt. Sends the output of all sessions as one
// response.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/http/http_exchange.h"
#include "server/http/openai_output.h"
#include "server/http/openai_request.h"
#include "server/options.h"
#include "server/session/call_tracker.h"
#include "server/session/output_sink.h"
#include "server/session/session.h"
#include "server/session/session_starter.h"

namespace incipit {

// The objects that every OpenAiCall uses. REQUIRES: all objects outlive all calls.
struct OpenAiContext {
  const Options& options;
  const ServedModel& model;
  const Tokenizer* tokenizer;  // null if the model has no tokenizer
  SessionStarter& starter;
  CallTracker& calls;
  const Clock& clock;
  // Estimated number of bytes of output that all HTTP and gateway calls together keep in memory.
  // Each call keeps its part until the response of the call is complete.
  std::atomic<int64_t>& num_kept_bytes;
};

// One HTTP request for completions or chat completions. A call exists until its response has ended
// and no session refers to the call. Thread-safe.
class OpenAiCall : public std::enable_shared_from_this<OpenAiCall> {
 public:
  // Starts to handle the request of `exchange`. If the client sends no valid request id, the field
  // "id" of the response contains the random number `id`.
  static void Start(const OpenAiContext& context, std::shared_ptr<HttpExchange> exchange,
                    bool is_chat, uint64_t id);
  ~OpenAiCall();

 private:
  class Sink;

  OpenAiCall(const OpenAiContext& context, std::shared_ptr<HttpExchange> exchange, bool is_chat,
             uint64_t id);
  void Begin();
  // Adds the call to `context_.calls`, which counts the calls in progress. Returns an error if the
  // maximum number of calls in progress is reached.
  absl::Status Track();
  // Returns the tenant that the header field X-Tenant-Id names, or the default tenant if the field
  // is absent. Returns an error if the name is invalid or the server accepts no new requests.
  absl::StatusOr<std::string> Admit() const;
  // Creates a session (an object that sends the output of one prompt) for the next prompt. Returns
  // null if the response is complete or the client has disconnected.
  std::shared_ptr<Session> AddSession();
  // Returns the session of the first prompt: the object that sends the output of this prompt.
  // Returns null if the response is complete or the client has disconnected.
  std::shared_ptr<Session> FirstSession();
  // Parses the request body `body`, and returns the prompts of the request. Runs on a thread that
  // renders chat templates and tokenizes.
  absl::StatusOr<std::vector<SessionStarter::Prompt>> Read(std::string_view body);
  // Returns a callback that stores the text and the token ids of prompt number `prompt` in
  // `output_`. Returns null if the response does not contain the prompt.
  SessionStarter::OnTokens OnTokensOf(size_t prompt, const OpenAiFormat& format,
                                      const RequestDraft& draft);

  // Adds `part`, new output of prompt number `prompt`, to the response. Returns false if `session`
  // must not send its next part until `part` is written to the connection.
  bool Deliver(size_t prompt, OutputPart part, const std::shared_ptr<Session>& session);
  void End(const absl::Status& status);
  // Ends the response with the error `status`, and cancels all prompts of the call.
  void Fail(const absl::Status& status);
  void SendError(const absl::Status& status, bool has_begun);
  // Sends the last events of a streamed response, or the whole response if the response is not a
  // stream.
  void SendEnd();
  void SendWhole();
  // Stops counting the call against the maximum number of calls in progress. Called before the end
  // of the response is sent, so that a client with the whole response can send its next request.
  void ReleaseLimits();
  // Subtracts the size of this call's output from `context_.num_kept_bytes`.
  void ReleaseKeptBytes();
  void Finish();
  void OnClosed();

  const OpenAiContext context_;
  const std::shared_ptr<HttpExchange> exchange_;
  const bool is_chat_;
  const uint64_t id_;
  const Time arrival_;
  // True while the call counts against the maximum number of calls in progress.
  std::atomic<bool> is_counted_ = false;
  // True while `context_.calls` counts the call: from CallTracker::Begin to CallTracker::End.
  std::atomic<bool> is_tracked_ = false;

  Mutex mutex_;
  // Element i: session (an object that sends the output of one prompt) of prompt number i.
  std::vector<std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(mutex_);
  // Output for the response. Null until the request body is parsed, and after the whole response
  // was built.
  std::unique_ptr<OpenAiOutput> output_ ABSL_GUARDED_BY(mutex_);
  size_t num_sessions_ ABSL_GUARDED_BY(mutex_) = 0, num_ended_ ABSL_GUARDED_BY(mutex_) = 0;
  // True after the server has begun to send a streamed response.
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;  // true after the client has disconnected
  // True after the call has received its last output or an error. The end of the response is then
  // being sent, or was sent.
  bool is_complete_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t num_counted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace incipit
