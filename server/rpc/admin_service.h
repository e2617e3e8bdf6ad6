// What operators ask for: what is served, how busy it is, and to drain, reset and log.
#pragma once

#include <incipit/v1/admin.grpc.pb.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "server/options.h"
#include "server/session/call_tracker.h"
#include "server/session/checked_request.h"

namespace incipit {

// What calls are answered with; references outlive the service.
struct AdminContext {
  const Options& options;
  const ServedModel& served;
  v1::GetModelInfoResponse model;
  v1::GetServerInfoResponse server;  // all but the uptime
  Time start{};
  Engine& engine;
  CallTracker& calls;
  std::function<void()> begin_drain;     // idempotent
  std::function<absl::Status()> resume;  // undoes begin_drain
  const Clock& clock;
};

class AdminService final : public v1::Admin::CallbackService {
 public:
  explicit AdminService(AdminContext context) : context_(std::move(context)) {}

  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* call,
                                         const v1::GetModelInfoRequest* message,
                                         v1::GetModelInfoResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* call,
                                          const v1::GetServerInfoRequest* message,
                                          v1::GetServerInfoResponse* response) override;
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* call,
                                    const v1::GetLoadRequest* message,
                                    v1::GetLoadResponse* response) override;
  grpc::ServerUnaryReactor* ResetPrefixCache(grpc::CallbackServerContext* call,
                                             const v1::ResetPrefixCacheRequest* message,
                                             v1::ResetPrefixCacheResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* call,
                                  const v1::DrainRequest* message,
                                  v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* Resume(grpc::CallbackServerContext* call,
                                   const v1::ResumeRequest* message,
                                   v1::ResumeResponse* response) override;
  grpc::ServerUnaryReactor* SetLogLevel(grpc::CallbackServerContext* call,
                                        const v1::SetLogLevelRequest* message,
                                        v1::SetLogLevelResponse* response) override;

 private:
  // PERMISSION_DENIED if `call` came to the port of Inference from another machine.
  absl::Status CheckIsLocal(const grpc::CallbackServerContext& call) const;
  // What GetLoad says of a prompt that is known by its ids.
  absl::StatusOr<Request> LoadPrompt(const grpc::CallbackServerContext& call,
                                     const v1::GetLoadRequest& message) const;

  const AdminContext context_;
};

}  // namespace incipit
