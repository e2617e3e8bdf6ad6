// The gRPC service incipit.v1.Admin for operators: information about the server, drain, resume,
// cache reset and log level.
#pragma once

#include <incipit/v1/admin.grpc.pb.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "server/drain_switch.h"
#include "server/metrics/metrics.h"
#include "server/options.h"
#include "server/session/api_keys.h"
#include "server/session/call_tracker.h"
#include "server/session/request/checked_request.h"
#include "server/session/session_starter.h"

namespace incipit {

class DeferredReactor;

// The values and objects that an AdminService uses. REQUIRES: the referenced objects outlive the
// AdminService.
struct AdminContext {
  const Options& options;
  const ServedModel& served;
  v1::GetModelInfoResponse model;
  v1::GetServerInfoResponse server;  // response of GetServerInfo, without the uptime
  Time start{};                      // time when the server started
  Engine& engine;
  const Metrics& metrics;
  const SessionStarter& starter;
  CallTracker& calls;
  DrainSwitch& drain;
  const Clock& clock;
  const ApiKeys& keys;
};

// The base class of the service incipit.v1.Admin, in which requests and responses are serialized
// bytes, so that gRPC does not parse the requests. The service parses a request only after it has
// checked the API key of the client. A long GetLoad request is not parsed on a gRPC thread.
using RawAdminService = v1::Admin::WithRawCallbackMethod_GetLoad<
    v1::Admin::WithRawCallbackMethod_GetModelInfo<v1::Admin::WithRawCallbackMethod_GetServerInfo<
        v1::Admin::WithRawCallbackMethod_ResetPrefixCache<
            v1::Admin::WithRawCallbackMethod_Drain<v1::Admin::WithRawCallbackMethod_Resume<
                v1::Admin::WithRawCallbackMethod_SetLogLevel<v1::Admin::Service>>>>>>>;

class AdminService final : public RawAdminService {
 public:
  explicit AdminService(AdminContext context) : context_(std::move(context)) {}

  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* call,
                                         const grpc::ByteBuffer* bytes,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* call,
                                          const grpc::ByteBuffer* bytes,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* call,
                                    const grpc::ByteBuffer* bytes,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ResetPrefixCache(grpc::CallbackServerContext* call,
                                             const grpc::ByteBuffer* bytes,
                                             grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Resume(grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* SetLogLevel(grpc::CallbackServerContext* call,
                                        const grpc::ByteBuffer* bytes,
                                        grpc::ByteBuffer* response) override;

 private:
  // Ends `call` and returns the reactor of `call` if CheckKey refuses the call. Otherwise returns
  // null.
  grpc::ServerUnaryReactor* RefuseWithoutKey(grpc::CallbackServerContext& call) const;
  // Parses `bytes` to `message` and returns null. If CheckKey refuses the call or the parsing
  // fails, ends `call` with the error and returns the reactor of `call`.
  template <typename Message>
  grpc::ServerUnaryReactor* RefuseOrParse(grpc::CallbackServerContext& call,
                                          const grpc::ByteBuffer& bytes, Message& message) const;
  // Returns PERMISSION_DENIED if the client is on another machine and --admin-address is not set.
  absl::Status CheckIsLocal(const grpc::CallbackServerContext& call) const;
  // Parses the GetLoad request `bytes`, fills `response` and completes the call of `reactor`. If
  // `bytes` has token ids, the engine thread later fills `response` and completes the call. If the
  // call has already ended, does not access `response`, which may have been destroyed.
  void AnswerLoad(const std::shared_ptr<DeferredReactor>& reactor,
                  const absl::StatusOr<std::string>& tenant, const grpc::ByteBuffer& bytes,
                  grpc::ByteBuffer& response) const;
  // Returns a request for Engine::PreviewAdmission with the token ids of `message` as prompt.
  // `tenant` and the cache salt in `message` determine which cached blocks the request can use.
  absl::StatusOr<Request> LoadPrompt(const absl::StatusOr<std::string>& tenant,
                                     const v1::GetLoadRequest& message) const;

  const AdminContext context_;
};

}  // namespace incipit
