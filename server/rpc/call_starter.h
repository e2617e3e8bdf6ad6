// Starts gRPC calls whose response is a stream with the output of one request.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/metrics/metrics.h"
#include "server/options.h"
#include "server/rpc/generate_stream.h"
#include "server/rpc/prompt_size.h"
#include "server/session/api_keys.h"
#include "server/session/call_tracker.h"
#include "server/session/prompt_encoder.h"
#include "server/session/session_starter.h"

namespace incipit {

// The objects that a CallStarter uses. REQUIRES: all objects outlive the CallStarter.
struct CallContext {
  const Options& options;
  const PromptEncoder& encoder;
  SessionStarter& starter;
  CallTracker& calls;
  const ApiKeys& keys;
  Metrics& metrics;
  const Clock& clock;
};

// Checks the limits on calls, and starts the session (the state from arrival to the last output) of
// each call. Thread-safe. Start runs on a gRPC thread and does not wait.
class CallStarter {
 public:
  // A callback that parses the message of a call. The argument is the session, which sends the
  // output of the call. Called at most once: on a thread that renders chat templates and tokenizes,
  // or on the gRPC thread if the call has no message.
  using Read =
      absl::AnyInvocable<absl::StatusOr<RequestDraft>(const std::shared_ptr<Session>& session)>;

  explicit CallStarter(const CallContext& context) : context_(context) {}

  // Starts a session (the object that sends the output) for `call`. `bytes` is the message of
  // `call`, and `read` parses the message. `format` converts the output to messages. `fields` are
  // the numbers of the protobuf fields with the prompt. If `fields` is null, the server knows the
  // size of the prompt only after `read`.
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(grpc::CallbackServerContext& call,
                                                    const grpc::ByteBuffer& bytes,
                                                    std::shared_ptr<ResponseFormat> format,
                                                    const PromptFields* fields, Read read) const;

 private:
  // Counts `stream` as a call in progress on the connection named `connection`, until the call
  // ends. Returns TOO_MANY_STREAMS if a limit on the number of calls is reached.
  absl::Status Track(const std::string& connection, GenerateStream& stream) const;
  // Checks the metadata of `call`, and checks that the engine accepts requests. Returns the name of
  // the tenant, or an error.
  absl::StatusOr<std::string> Admit(const grpc::CallbackServerContext& call) const;

  const CallContext context_;
};

}  // namespace incipit
