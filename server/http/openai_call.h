// Handles one HTTP request for completions or chat completions: starts a session for each prompt,
// and sends the output of all sessions as one response.
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

// The objects that an OpenAiCall uses. REQUIRES: all objects outlive all calls.
struct OpenAiContext {
  const Options& options;
  const ServedModel& model;
  const Tokenizer* tokenizer;  // null if the model has no tokenizer
  SessionStarter& starter;
  CallTracker& calls;
  const Clock& clock;
  // Estimated total size, in bytes, of the output that the server keeps for responses that are not
  // streams.
  std::atomic<int64_t>& num_kept_bytes;
};

// One HTTP request for completions or chat completions. A call exists until its response has ended
// and no session refers to the call. Thread-safe.
class OpenAiCall : public std::enable_shared_from_this<OpenAiCall> {
 public:
  // Starts to handle the request of `exchange`. The `id` of the response contains the random number
  // `id`.
  static void Start(const OpenAiContext& context, std::shared_ptr<HttpExchange> exchange,
                    bool is_chat, uint64_t id);
  ~OpenAiCall();

 private:
  class Sink;

  OpenAiCall(const OpenAiContext& context, std::shared_ptr<HttpExchange> exchange, bool is_chat,
             uint64_t id);
  void Begin();
  // Adds the call to `calls`. Returns an error if the maximum number of calls in progress is
  // reached.
  absl::Status Track();
  // Returns the tenant that the header fields name, or the default tenant. Returns an error if the
  // name is invalid or the server accepts no requests.
  absl::StatusOr<std::string> Admit() const;
  // Creates the session of the next prompt. Returns null if the response is complete or the client
  // has disconnected.
  std::shared_ptr<Session> AddSession();
  // Returns the session of the first prompt, or null if the response is complete or the client has
  // disconnected.
  std::shared_ptr<Session> FirstSession();
  // Parses the body of the request. Runs on a text thread (a thread that prepares requests).
  absl::StatusOr<std::vector<SessionStarter::Prompt>> Read(std::string_view body);
  // Returns a callback that stores the prompt in `output_`. Returns null if the response does not
  // contain the prompt.
  SessionStarter::OnTokens OnTokensOf(size_t prompt, const OpenAiFormat& format,
                                      const RequestDraft& draft);

  // Adds `part`, output of prompt number `prompt`, to the response. Returns false if `session` must
  // wait until the part is written to the connection.
  bool Deliver(size_t prompt, OutputPart part, const std::shared_ptr<Session>& session);
  void End(const absl::Status& status);
  // Ends the response with the error `status`, and cancels all sessions.
  void Fail(const absl::Status& status);
  void SendError(const absl::Status& status, bool has_begun);
  // Sends the end of a stream, or a whole response.
  void SendEnd();
  void SendWhole();
  // Ends the effect of the call on the limits of `calls`. Called before the end of the response is
  // sent, so that a client that has received the response can send its next request.
  void ReleaseLimits();
  // Subtracts the output of the call from `num_kept_bytes`.
  void ReleaseKeptBytes();
  void Finish();
  void OnClosed();

  const OpenAiContext context_;
  const std::shared_ptr<HttpExchange> exchange_;
  const bool is_chat_;
  const uint64_t id_;
  const Time arrival_;
  std::atomic<bool> is_counted_ = false;  // true while the limits of `calls` apply to the call
  std::atomic<bool> is_tracked_ = false;  // true from Begin to End of `calls`

  Mutex mutex_;
  // Element i: session of prompt number i.
  std::vector<std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<OpenAiOutput> output_ ABSL_GUARDED_BY(mutex_);  // null until the body is parsed
  size_t num_sessions_ ABSL_GUARDED_BY(mutex_) = 0, num_ended_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;    // true after BeginStream was called
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;    // true after the client has disconnected
  bool is_complete_ ABSL_GUARDED_BY(mutex_) = false;  // true after the end of the response was sent
  int64_t num_counted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace incipit
