// The gRPC service vllm.grpc.engine.VllmEngine, through which the SMG gateway uses the server.
#pragma once

#include <vllm/grpc/engine/vllm_engine.grpc.pb.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "engine/engine.h"
#include "server/gateway/gateway_load.h"
#include "server/gateway/gateway_output.h"
#include "server/gateway/kv_event_hub.h"
#include "server/gateway/tokenizer_archive.h"
#include "server/metrics/metrics.h"
#include "server/options.h"
#include "server/rpc/call_starter.h"
#include "server/rpc/health.h"
#include "server/session/api_keys.h"
#include "server/session/call_tracker.h"
#include "server/session/prompt_encoder.h"
#include "server/session/request/checked_request.h"
#include "server/session/session_starter.h"

namespace incipit {

// Properties of the model and of the cache that the server reports to a gateway.
struct GatewayDescription {
  std::string architecture, dtype, kv_dtype;
  std::optional<TokenId> bos_id;
  int32_t block_size = 0;
};

// The values and objects that a GatewayService uses. REQUIRES: the referenced objects outlive the
// service.
struct GatewayContext {
  const Options& options;
  const ServedModel& model;
  GatewayDescription description;
  const PromptEncoder& encoder;
  SessionStarter& starter;
  GatewayCalls& gateway_calls;
  KvEventHub& kv_events;
  CallTracker& calls;
  Engine& engine;
  Metrics& metrics;
  const Health& health;
  const ApiKeys& keys;
  const Clock& clock;
};

namespace gateway {

using vllm::grpc::engine::VllmEngine;
template <typename Base>
using WithInfo = VllmEngine::WithRawCallbackMethod_HealthCheck<
    VllmEngine::WithRawCallbackMethod_GetModelInfo<VllmEngine::WithRawCallbackMethod_GetServerInfo<
        VllmEngine::WithRawCallbackMethod_GetLoads<VllmEngine::WithRawCallbackMethod_GetTokenizer<
            VllmEngine::WithRawCallbackMethod_SubscribeKvEvents<Base>>>>>>;
template <typename Base>
using WithCalls = VllmEngine::WithRawCallbackMethod_Generate<
    VllmEngine::WithRawCallbackMethod_Abort<VllmEngine::WithRawCallbackMethod_FlushCache<Base>>>;
// Base class for the gRPC methods Embed, StartProfile and StopProfile. The methods return
// UNIMPLEMENTED, because GatewayService does not implement them.
template <typename Base>
using WithoutFunction =
    VllmEngine::WithRawCallbackMethod_Embed<VllmEngine::WithRawCallbackMethod_StartProfile<
        VllmEngine::WithRawCallbackMethod_StopProfile<Base>>>;
// Base class of GatewayService. The functions get requests and return responses as serialized
// bytes.
using RawService = WithInfo<WithCalls<WithoutFunction<VllmEngine::Service>>>;

}  // namespace gateway

// Implements the gRPC service vllm.grpc.engine.VllmEngine. Thread-safe. No function blocks.
class GatewayService final : public gateway::RawService {
 public:
  explicit GatewayService(GatewayContext context);

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* call,
                                                       const grpc::ByteBuffer* bytes) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* FlushCache(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* bytes,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* HealthCheck(grpc::CallbackServerContext* call,
                                        const grpc::ByteBuffer* bytes,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* call,
                                         const grpc::ByteBuffer* bytes,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* call,
                                          const grpc::ByteBuffer* bytes,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetLoads(grpc::CallbackServerContext* call,
                                     const grpc::ByteBuffer* bytes,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* GetTokenizer(grpc::CallbackServerContext* call,
                                                           const grpc::ByteBuffer* bytes) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* SubscribeKvEvents(
      grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes) override;

 private:
  vllm::grpc::engine::GetModelInfoResponse ModelInfo() const;

  const GatewayContext context_;
  const CallStarter starter_;
  const Time start_;
  const vllm::grpc::engine::GetModelInfoResponse model_info_;
  LoadMeter load_;
  TokenizerArchive tokenizer_;
};

}  // namespace incipit
