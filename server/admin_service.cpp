#include "server/admin_service.h"

#include <grpcpp/server_context.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/status.h"
#include "server/error_details.h"
#include "server/logging.h"

namespace incipit {
namespace {

// A call that something else completes later, or its cancellation, whichever comes first.
class DeferredReactor final : public grpc::ServerUnaryReactor {
 public:
  static std::shared_ptr<DeferredReactor> Open() {
    std::shared_ptr<DeferredReactor> reactor(new DeferredReactor);
    reactor->self_ = reactor;
    return reactor;
  }

  void Complete(const absl::Status& status) {
    {
      MutexLock lock(mutex_);
      if (completed_) return;
      completed_ = true;
    }
    Finish(ToGrpcStatus(status));
  }

  void OnCancel() override { Complete(Cancelled("the call was cancelled")); }
  void OnDone() override { self_.reset(); }

 private:
  DeferredReactor() = default;

  std::shared_ptr<DeferredReactor> self_;  // until OnDone
  Mutex mutex_;
  bool completed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerUnaryReactor* AdminService::GetModelInfo(grpc::CallbackServerContext* call,
                                                     const v1::GetModelInfoRequest* /*message*/,
                                                     v1::GetModelInfoResponse* response) {
  *response = context_.model;
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetServerInfo(grpc::CallbackServerContext* call,
                                                      const v1::GetServerInfoRequest* /*message*/,
                                                      v1::GetServerInfoResponse* response) {
  *response = context_.server;
  response->set_uptime_seconds(ToSeconds(context_.clock.Now() - context_.start));
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetLoad(grpc::CallbackServerContext* call,
                                                const v1::GetLoadRequest* /*message*/,
                                                v1::GetLoadResponse* response) {
  const EngineLoad load = context_.engine.Load();
  response->set_running(static_cast<uint32_t>(load.num_running));
  response->set_waiting(static_cast<uint32_t>(load.num_waiting));
  response->set_waiting_prompt_tokens(static_cast<uint64_t>(load.num_waiting_prompt_tokens));
  response->set_blocks(static_cast<uint32_t>(load.num_blocks));
  response->set_used_blocks(static_cast<uint32_t>(load.num_used_blocks));
  response->set_cached_blocks(static_cast<uint32_t>(load.num_cached_blocks));
  response->set_block_size(static_cast<uint32_t>(load.block_size));
  response->set_draining(load.draining);
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::ResetPrefixCache(
    grpc::CallbackServerContext* /*call*/, const v1::ResetPrefixCacheRequest* /*message*/,
    v1::ResetPrefixCacheResponse* /*response*/) {
  const std::shared_ptr<DeferredReactor> reactor = DeferredReactor::Open();
  context_.engine.ResetPrefixCache([reactor](bool was_reset) {
    if (was_reset) spdlog::info("prefix cache reset");
    reactor->Complete(
        was_reset ? absl::OkStatus()
                  : WithReason(FailedPrecondition("a request holds blocks"), reason::kBlocksInUse));
  });
  return reactor.get();
}

grpc::ServerUnaryReactor* AdminService::Drain(grpc::CallbackServerContext* /*call*/,
                                              const v1::DrainRequest* /*message*/,
                                              v1::DrainResponse* /*response*/) {
  const std::shared_ptr<DeferredReactor> reactor = DeferredReactor::Open();
  context_.begin_drain();
  context_.calls.WhenIdle([reactor] { reactor->Complete(absl::OkStatus()); });
  return reactor.get();
}

grpc::ServerUnaryReactor* AdminService::SetLogLevel(grpc::CallbackServerContext* call,
                                                    const v1::SetLogLevelRequest* message,
                                                    v1::SetLogLevelResponse* response) {
  constexpr std::array<std::string_view, 6> kLevels = {"trace", "debug", "info",
                                                       "warn",  "error", "off"};
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  if (std::find(kLevels.begin(), kLevels.end(), message->level()) == kLevels.end()) {
    reactor->Finish(
        ToGrpcStatus(InvalidField("level", "must be one of {}", fmt::join(kLevels, ", "))));
    return reactor;
  }
  response->set_previous_level(LogLevel());
  incipit::SetLogLevel(message->level());
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace incipit
