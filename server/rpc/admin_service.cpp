#include "server/rpc/admin_service.h"

#include <grpcpp/server_context.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "base/status.h"
#include "server/logging.h"
#include "server/rpc/call_key.h"
#include "server/rpc/call_metadata.h"
#include "server/rpc/deferred_reactor.h"
#include "server/rpc/error_details.h"
#include "server/rpc/local_peer.h"
#include "server/rpc/message_bytes.h"
#include "server/rpc/request_reader.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

// Maximum size in bytes of a GetLoad request that is parsed on a gRPC thread. Longer requests are
// parsed on a thread that renders chat templates and tokenizes, so that the gRPC thread is not
// blocked.
constexpr size_t kShortMessageBytes = 1024;

// Time after which a client may repeat a GetLoad or ResetPrefixCache call that the engine has
// refused because too many such calls were waiting.
constexpr Duration kRetryDelay = std::chrono::seconds(1);

// Returns a copy of `status`. If the code is RESOURCE_EXHAUSTED, the copy contains the retry delay
// kRetryDelay.
absl::Status RetryLater(absl::Status status) {
  if (!absl::IsResourceExhausted(status)) return status;
  return WithRetryDelay(status, kRetryDelay);
}

void FillPreview(const AdmissionPreview& preview, v1::AdmissionPreview& out) {
  out.set_fits(preview.fits);
  out.set_cached_tokens(static_cast<uint32_t>(preview.cached_tokens));
  out.set_disk_tokens(static_cast<uint32_t>(preview.loadable_tokens));
  out.set_blocks_needed(static_cast<uint32_t>(preview.blocks_needed));
  out.set_blocks_evicted(static_cast<uint32_t>(preview.blocks_evicted));
}

void FillLoad(const EngineLoad& load, const std::optional<AdmissionPreview>& preview,
              const Metrics& metrics, grpc::ByteBuffer& response) {
  v1::GetLoadResponse out;
  out.set_running(static_cast<uint32_t>(load.num_running));
  out.set_waiting(static_cast<uint32_t>(load.num_waiting));
  out.set_waiting_prompt_tokens(static_cast<uint64_t>(load.num_waiting_prompt_tokens));
  out.set_blocks(static_cast<uint32_t>(load.num_blocks));
  out.set_used_blocks(static_cast<uint32_t>(load.num_used_blocks));
  out.set_cached_blocks(static_cast<uint32_t>(load.num_cached_blocks));
  out.set_retained_blocks(static_cast<uint32_t>(load.num_retained_blocks));
  out.set_block_size(static_cast<uint32_t>(load.block_size));
  out.set_draining(load.draining);
  out.set_evicted_blocks_total(static_cast<uint64_t>(metrics.num_evicted_blocks()));
  out.set_regret_blocks_total(static_cast<uint64_t>(metrics.num_regret_blocks()));
  if (load.expected_wait) out.set_expected_wait_seconds(ToSeconds(*load.expected_wait));
  if (preview) FillPreview(*preview, *out.mutable_admission());
  ToBytes(out, response);
}

// Estimates how many cache blocks a prompt of `num_tokens` tokens needs, and how many cached blocks
// must be evicted for the prompt. Assumes that the cache contains no prefix of the prompt.
AdmissionPreview PreviewOf(uint32_t num_tokens, const EngineLoad& load) {
  const int64_t num_needed = (int64_t{num_tokens} + load.block_size - 1) / load.block_size;
  const int32_t num_free = load.num_blocks - load.num_used_blocks;
  const int64_t num_evicted = num_needed - (num_free - load.num_cached_blocks);
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  return {.fits = num_needed <= num_free,
          .blocks_needed = static_cast<int32_t>(std::min(num_needed, kMax)),
          .blocks_evicted = static_cast<int32_t>(std::clamp<int64_t>(num_evicted, 0, kMax))};
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::RefuseWithoutKey(grpc::CallbackServerContext& call) const {
  const absl::Status status = CheckKey(call, context_.keys);
  if (status.ok()) return nullptr;
  grpc::ServerUnaryReactor* const reactor = call.DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

template <typename Message>
grpc::ServerUnaryReactor* AdminService::RefuseOrParse(grpc::CallbackServerContext& call,
                                                      const grpc::ByteBuffer& bytes,
                                                      Message& message) const {
  if (auto* const refused = RefuseWithoutKey(call); refused != nullptr) return refused;
  const absl::Status status = FromBytes(bytes, message);
  if (status.ok()) return nullptr;
  grpc::ServerUnaryReactor* const reactor = call.DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetModelInfo(grpc::CallbackServerContext* call,
                                                     const grpc::ByteBuffer* bytes,
                                                     grpc::ByteBuffer* response) {
  v1::GetModelInfoRequest message;
  if (auto* const refused = RefuseOrParse(*call, *bytes, message); refused != nullptr)
    return refused;
  ToBytes(context_.model, *response);
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetServerInfo(grpc::CallbackServerContext* call,
                                                      const grpc::ByteBuffer* bytes,
                                                      grpc::ByteBuffer* response) {
  v1::GetServerInfoRequest message;
  if (auto* const refused = RefuseOrParse(*call, *bytes, message); refused != nullptr)
    return refused;
  v1::GetServerInfoResponse info = context_.server;
  info.set_uptime_seconds(ToSeconds(context_.clock.Now() - context_.start));
  ToBytes(info, *response);
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

absl::StatusOr<Request> AdminService::LoadPrompt(const absl::StatusOr<std::string>& tenant,
                                                 const v1::GetLoadRequest& message) const {
  INCIPIT_RETURN_IF_ERROR(tenant.status());
  INCIPIT_ASSIGN_OR_RETURN(CheckedRequest checked,
                           CheckPrompt(TokensOf(message.token_ids().ids()), message.cache_salt(),
                                       context_.served, context_.options.request));
  SetTenant(*tenant, context_.options.isolate_tenants, checked.cache_salt, checked.request);
  return std::move(checked.request);
}

grpc::ServerUnaryReactor* AdminService::GetLoad(grpc::CallbackServerContext* call,
                                                const grpc::ByteBuffer* bytes,
                                                grpc::ByteBuffer* response) {
  if (auto* const refused = RefuseWithoutKey(*call); refused != nullptr) return refused;
  const std::shared_ptr<DeferredReactor> reactor = DeferredReactor::Open();
  const auto answer = [this, reactor, tenant = TenantOf(*call, context_.options.request),
                       copy = *bytes, response] { AnswerLoad(reactor, tenant, copy, *response); };
  if (bytes->Length() <= kShortMessageBytes) {
    answer();
    return reactor.get();
  }
  context_.starter.RunText(call->peer(), {.num_bytes = static_cast<int64_t>(bytes->Length())},
                           /*tokens_behind=*/0, [reactor, answer](const absl::Status& room) {
                             if (room.ok()) {
                               answer();
                             } else {
                               reactor->Complete(room);
                             }
                           });
  return reactor.get();
}

void AdminService::AnswerLoad(const std::shared_ptr<DeferredReactor>& reactor,
                              const absl::StatusOr<std::string>& tenant,
                              const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response) const {
  if (reactor->is_completed()) return;
  v1::GetLoadRequest message;
  absl::Status status = FromBytes(bytes, message);
  const EngineLoad load = context_.engine.Load();
  std::optional<AdmissionPreview> preview;
  if (status.ok() && message.has_token_ids()) {
    absl::StatusOr<Request> request = LoadPrompt(tenant, message);
    status = request.status();
    if (status.ok()) {
      // Only the engine thread may access the prefix cache. The engine thread therefore computes
      // the preview: how many prompt tokens are cached, how many blocks the prompt needs, and how
      // many blocks must be evicted.
      status = context_.engine.PreviewAdmission(
          std::make_shared<const Request>(*std::move(request)),
          [reactor, &response, load,
           &metrics = context_.metrics](const AdmissionPreview& admission) {
            reactor->Complete(absl::OkStatus(),
                              [&] { FillLoad(load, admission, metrics, response); });
          });
      if (status.ok()) return;
    }
    status = RetryLater(std::move(status));
  } else if (status.ok() && message.prompt_case() == v1::GetLoadRequest::kPromptTokens) {
    if (message.prompt_tokens() == 0) {
      status =
          InvalidField("prompt_tokens", "is 0; the number of prompt tokens must be at least 1");
    } else {
      preview = PreviewOf(message.prompt_tokens(), load);
    }
  }
  reactor->Complete(status, [&] { FillLoad(load, preview, context_.metrics, response); });
}

absl::Status AdminService::CheckIsLocal(const grpc::CallbackServerContext& call) const {
  if (context_.options.admin_address || IsLocalPeer(call.peer())) return absl::OkStatus();
  return Refuse(Reason::kAdminNotLocal,
                "the client is on another machine; call from the machine of the server, "
                "or start the server with --admin-address");
}

grpc::ServerUnaryReactor* AdminService::ResetPrefixCache(grpc::CallbackServerContext* call,
                                                         const grpc::ByteBuffer* bytes,
                                                         grpc::ByteBuffer* response) {
  v1::ResetPrefixCacheRequest message;
  if (auto* const refused = RefuseOrParse(*call, *bytes, message); refused != nullptr)
    return refused;
  const std::shared_ptr<DeferredReactor> reactor = DeferredReactor::Open();
  if (absl::Status status = CheckIsLocal(*call); !status.ok()) {
    reactor->Complete(status);
    return reactor.get();
  }
  ToBytes(v1::ResetPrefixCacheResponse(), *response);
  absl::Status status = context_.engine.ResetPrefixCache([reactor](bool was_reset) {
    // Logs after the end of the call, on a gRPC thread. Writing the log can block a thread, and the
    // engine thread must not block.
    if (was_reset) reactor->OnDoneCall([] { spdlog::info("the prefix cache was reset"); });
    reactor->Complete(
        was_reset
            ? absl::OkStatus()
            : Refuse(Reason::kBlocksInUse,
                     "the prefix cache cannot be reset while a running request uses cache blocks"));
  });
  if (!status.ok()) reactor->Complete(RetryLater(std::move(status)));
  return reactor.get();
}

grpc::ServerUnaryReactor* AdminService::Drain(grpc::CallbackServerContext* call,
                                              const grpc::ByteBuffer* bytes,
                                              grpc::ByteBuffer* response) {
  v1::DrainRequest message;
  if (auto* const refused = RefuseOrParse(*call, *bytes, message); refused != nullptr)
    return refused;
  const std::shared_ptr<DeferredReactor> reactor = DeferredReactor::Open();
  if (absl::Status status = CheckIsLocal(*call); !status.ok()) {
    reactor->Complete(status);
    return reactor.get();
  }
  ToBytes(v1::DrainResponse(), *response);
  context_.drain.Drain();
  const uint64_t ticket =
      context_.calls.WhenIdle([reactor] { reactor->Complete(absl::OkStatus()); });
  reactor->OnCancelCall([&calls = context_.calls, ticket] { calls.Forget(ticket); });
  return reactor.get();
}

grpc::ServerUnaryReactor* AdminService::Resume(grpc::CallbackServerContext* call,
                                               const grpc::ByteBuffer* bytes,
                                               grpc::ByteBuffer* response) {
  v1::ResumeRequest message;
  if (auto* const refused = RefuseOrParse(*call, *bytes, message); refused != nullptr)
    return refused;
  ToBytes(v1::ResumeResponse(), *response);
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  absl::Status status = CheckIsLocal(*call);
  if (status.ok()) {
    status = context_.drain.Resume();
    if (status.ok()) {
      spdlog::info("the server accepts requests again");
    } else {
      status = Refuse(Reason::kCannotResume, MessageOf(status));
    }
  }
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::SetLogLevel(grpc::CallbackServerContext* call,
                                                    const grpc::ByteBuffer* bytes,
                                                    grpc::ByteBuffer* response) {
  v1::SetLogLevelRequest message;
  if (auto* const refused = RefuseOrParse(*call, *bytes, message); refused != nullptr)
    return refused;
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  if (absl::Status status = CheckIsLocal(*call); !status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  const auto level = ValueIn(kLogLevelNames, message.level());
  if (!level) {
    reactor->Finish(
        ToGrpcStatus(InvalidField("level", "must be one of {}", JoinedNames(kLogLevelNames))));
    return reactor;
  }
  v1::SetLogLevelResponse previous;
  previous.set_previous_level(std::string(NameIn(kLogLevelNames, CurrentLogLevel())));
  ToBytes(previous, *response);
  incipit::SetLogLevel(*level);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace incipit
