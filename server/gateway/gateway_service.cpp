#include "server/gateway/gateway_service.h"

#include <grpcpp/server_context.h>
#include <smg/grpc/common/common.pb.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "server/gateway/kv_event_stream.h"
#include "server/gateway/tokenizer_stream.h"
#include "server/rpc/call_key.h"
#include "server/rpc/deferred_reactor.h"
#include "server/rpc/local_peer.h"
#include "server/rpc/message_bytes.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

namespace api = vllm::grpc::engine;

// Maximum size in bytes of an Abort request that is parsed on the gRPC thread of the call. Longer
// requests are parsed on a thread that renders chat templates and tokenizes.
constexpr size_t kShortAbortBytes = 4096;

// Ends `call` with the status OK and the response `message`.
template <typename Message>
grpc::ServerUnaryReactor* Respond(grpc::CallbackServerContext& call, const Message& message,
                                  grpc::ByteBuffer& response) {
  ToBytes(message, response);
  grpc::ServerUnaryReactor* const reactor = call.DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

// Returns the model path that the server reports to a gateway for the model `name`. A gateway calls
// GetTokenizer only if neither a folder nor a Hugging Face repository has this path. The path
// contains a colon, because the name of a repository never contains a colon.
std::string ModelPathOf(std::string_view name) {
  std::string path = fmt::format("incipit:{}", name);
  std::ranges::replace(path, '/', '_');
  return path;
}

// Returns the default sampling options of the model as a JSON object, or an empty string if the
// model has no defaults.
std::string DefaultsJson(const GenerationDefaults& defaults) {
  nlohmann::json json = nlohmann::json::object();
  if (defaults.temperature) json["temperature"] = *defaults.temperature;
  if (defaults.top_p) json["top_p"] = *defaults.top_p;
  if (defaults.top_k) json["top_k"] = *defaults.top_k;
  if (defaults.repetition_penalty) json["repetition_penalty"] = *defaults.repetition_penalty;
  return json.empty() ? "" : json.dump();
}

// Returns the present time in the format of ISO 8601.
std::string Timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  const size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text, size);
}

// Cancels the requests whose names are in the serialized AbortRequest `bytes`.
absl::Status AbortAll(const grpc::ByteBuffer& bytes, AbortList& aborts) {
  api::AbortRequest message;
  INCIPIT_RETURN_IF_ERROR(FromBytes(bytes, message));
  for (const std::string& name : message.request_ids()) aborts.Abort(name);
  return absl::OkStatus();
}

}  // namespace

GatewayService::GatewayService(GatewayContext context)
    : context_(std::move(context)),
      starter_({context_.options, context_.encoder, context_.starter, context_.calls, context_.keys,
                context_.metrics, context_.clock}),
      start_(context_.clock.Now()),
      model_info_(ModelInfo()),
      load_(context_.engine, context_.metrics, context_.clock),
      tokenizer_(context_.options.model, context_.options.chat_template) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GatewayService::Generate(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes) {
  auto output = std::make_shared<GatewayOutput>(context_.gateway_calls,
                                                context_.options.output_queue_bytes_max);
  const auto read = [this, output, copy = *bytes](
                        const std::shared_ptr<Session>& session) -> absl::StatusOr<RequestDraft> {
    INCIPIT_ASSIGN_OR_RETURN(GatewayRequest request,
                             ReadGatewayRequest(copy, context_.options.request));
    output->Begin(request, session);
    return std::move(request.draft);
  };
  return starter_.Start(*call, *bytes, output, &GatewayPromptFields(), read);
}

grpc::ServerUnaryReactor* GatewayService::Abort(grpc::CallbackServerContext* call,
                                                const grpc::ByteBuffer* bytes,
                                                grpc::ByteBuffer* response) {
  const std::shared_ptr<DeferredReactor> reactor = DeferredReactor::Open();
  // If the call has no valid API key, gRPC has already cancelled the call, but still runs this
  // function. Such a call must not abort requests.
  if (const absl::Status status = CheckKey(*call, context_.keys); !status.ok()) {
    reactor->Complete(status);
    return reactor.get();
  }
  const auto abort = [this, reactor, copy = *bytes, response] {
    reactor->Complete(AbortAll(copy, context_.gateway_calls.aborts),
                      [response] { ToBytes(api::AbortResponse(), *response); });
  };
  if (bytes->Length() <= kShortAbortBytes) {
    abort();
    return reactor.get();
  }
  context_.starter.RunText(call->peer(), {.num_bytes = static_cast<int64_t>(bytes->Length())},
                           /*tokens_behind=*/0, [reactor, abort](const absl::Status& room) {
                             if (room.ok()) {
                               abort();
                             } else {
                               reactor->Complete(room);
                             }
                           });
  return reactor.get();
}

grpc::ServerUnaryReactor* GatewayService::FlushCache(grpc::CallbackServerContext* call,
                                                     const grpc::ByteBuffer* /*bytes*/,
                                                     grpc::ByteBuffer* response) {
  const std::shared_ptr<DeferredReactor> reactor = DeferredReactor::Open();
  if (const absl::Status status = CheckKey(*call, context_.keys); !status.ok()) {
    reactor->Complete(status);
    return reactor.get();
  }
  if (!IsLocalPeer(call->peer())) {
    reactor->Complete(Refuse(Reason::kAdminNotLocal,
                             "the client is on another machine; call from the machine of the "
                             "server"));
    return reactor.get();
  }
  const absl::Status status = context_.engine.ResetPrefixCache([reactor, response](bool was_reset) {
    // Logs the message on a gRPC thread, because the engine thread, which runs this callback, must
    // not be blocked.
    if (was_reset) reactor->OnDoneCall([] { spdlog::info("the prefix cache was reset"); });
    reactor->Complete(absl::OkStatus(), [response, was_reset] {
      smg::grpc::common::FlushCacheResponse message;
      message.set_success(was_reset);
      message.set_message(was_reset ? "the prefix cache is empty"
                                    : "the prefix cache cannot be reset while a running "
                                      "request uses cache blocks");
      ToBytes(message, *response);
    });
  });
  if (!status.ok()) reactor->Complete(status);
  return reactor.get();
}

grpc::ServerUnaryReactor* GatewayService::HealthCheck(grpc::CallbackServerContext* call,
                                                      const grpc::ByteBuffer* /*bytes*/,
                                                      grpc::ByteBuffer* response) {
  api::HealthCheckResponse message;
  if (context_.health.is_broken()) {
    message.set_message("the engine has failed or makes no progress");
  } else if (context_.health.is_draining()) {
    message.set_message("the server is draining");
  } else if (context_.health.is_prewarming()) {
    message.set_message("the server computes the prompts of --prewarm");
  } else {
    message.set_healthy(true);
  }
  return Respond(*call, message, *response);
}

api::GetModelInfoResponse GatewayService::ModelInfo() const {
  const ServedModel& model = context_.model;
  const GatewayDescription& description = context_.description;
  api::GetModelInfoResponse out;
  out.set_model_path(ModelPathOf(model.name));
  out.set_is_generation(true);
  out.set_max_context_length(static_cast<uint32_t>(model.max_model_len));
  out.set_vocab_size(static_cast<uint32_t>(model.vocab_size));
  out.set_served_model_name(model.name);
  out.add_architectures(description.architecture);
  for (const TokenId id : model.eos_ids) out.add_eos_token_ids(id);
  if (description.bos_id) out.set_bos_token_id(*description.bos_id);
  const int32_t prompt_max = context_.options.request.prompt_tokens_max;
  const int32_t room = model.max_model_len - 1;
  out.set_max_req_input_len(prompt_max > 0 ? std::min(prompt_max, room) : room);
  out.set_default_sampling_params_json(DefaultsJson(model.defaults));
  return out;
}

grpc::ServerUnaryReactor* GatewayService::GetModelInfo(grpc::CallbackServerContext* call,
                                                       const grpc::ByteBuffer* /*bytes*/,
                                                       grpc::ByteBuffer* response) {
  return Respond(*call, model_info_, *response);
}

grpc::ServerUnaryReactor* GatewayService::GetServerInfo(grpc::CallbackServerContext* call,
                                                        const grpc::ByteBuffer* /*bytes*/,
                                                        grpc::ByteBuffer* response) {
  const EngineLoad load = context_.engine.Load();
  api::GetServerInfoResponse message;
  message.set_active_requests(static_cast<uint32_t>(load.num_running + load.num_waiting));
  message.set_is_paused(load.draining);
  message.set_uptime_seconds(ToSeconds(context_.clock.Now() - start_));
  message.set_server_type("incipit");
  message.set_data_parallel_size(1);
  message.set_kv_cache_dtype(context_.description.kv_dtype);
  message.set_block_size(context_.description.block_size);
  message.set_model_dtype(context_.description.dtype);
  message.set_max_num_seqs(context_.options.running_max);
  return Respond(*call, message, *response);
}

grpc::ServerUnaryReactor* GatewayService::GetLoads(grpc::CallbackServerContext* call,
                                                   const grpc::ByteBuffer* /*bytes*/,
                                                   grpc::ByteBuffer* response) {
  api::GetLoadsResponse message;
  message.set_timestamp(Timestamp());
  message.set_version(INCIPIT_VERSION);
  message.set_dp_rank_count(1);
  FillLoad(load_.Read(), context_.options.running_max, *message.add_loads());
  return Respond(*call, message, *response);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GatewayService::GetTokenizer(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* /*bytes*/) {
  auto* const stream = new TokenizerStream;
  if (auto chunks = tokenizer_.GetIfReady(); chunks != nullptr) {
    stream->Begin(std::move(chunks));
    return stream;
  }
  context_.starter.RunText(call->peer(), {}, /*tokens_behind=*/0,
                           [this, stream](const absl::Status& room) {
                             if (room.ok()) {
                               stream->Begin(tokenizer_.Get());
                             } else {
                               stream->Begin(room);
                             }
                           });
  return stream;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GatewayService::SubscribeKvEvents(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes) {
  return KvEventStream::Open(context_.kv_events, *call, *bytes);
}

}  // namespace incipit
