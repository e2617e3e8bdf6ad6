#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <future>
#include <limits>
#include <utility>

#include "base/status.h"
#include "server/drain_switch.h"
#include "server/engine_options.h"
#include "server/gateway/gateway_service.h"
#include "server/http/http_server.h"
#include "server/http/openai_error.h"
#include "server/http/openai_routes.h"
#include "server/metrics/metrics.h"
#include "server/net/connection_listener.h"
#include "server/prewarm/prewarmer.h"
#include "server/prewarm/ready_signal.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/call_key.h"
#include "server/rpc/health.h"
#include "server/rpc/inference_service.h"
#include "server/session/call_tracker.h"
#include "server/session/prompt_encoder.h"
#include "server/session/request/request_error.h"
#include "server/session/retry_delay.h"
#include "server/session/session_starter.h"
#include "server/session/text_pool.h"
#include "server/session/token_dispatcher.h"
#include "server/watchdog.h"

namespace incipit {
namespace {

// Maximum time that a stopping server waits until the cancelled calls of Generate, Chat and the
// HTTP API have ended.
constexpr Duration kFarewell = std::chrono::seconds(2);
// Maximum time that a stopping gRPC or HTTP server waits for its calls in progress. The remaining
// calls are then cancelled.
constexpr Duration kLastReplies = std::chrono::milliseconds(100);
constexpr int kHandshakeTimeoutMs = 5000;
// Limit of the gRPC library for the size of a call's metadata, in bytes. The limit is larger than
// every value of --metadata-bytes-max. If a call exceeds the limit of the library, gRPC before 1.53
// corrupts later calls of the connection.
constexpr int kWireMetadataBytesMax = 2 * kMetadataBytesLimitMax;
// Longest time that one step (batch) of the engine is expected to take, if --step-tokens is not
// set. The server then measures steps at its start, to choose the maximum number of tokens in a
// step.
constexpr Duration kMeasuredStep = std::chrono::milliseconds(500);
// Longest time that one step (batch) of the engine is expected to take, if --step-tokens sets the
// maximum number of tokens in a step. The server then measures no steps at its start.
constexpr Duration kUnknownStep = std::chrono::seconds(5);

int Milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

void Configure(const Options& options, const ApiKeys& keys, grpc::ServerBuilder& builder) {
  GuardOtherServices(keys, builder);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
  // Limits the memory for received messages. The maximum message size does not limit this memory:
  // gRPC before 1.54 checks the size only after the whole message is in memory.
  grpc::ResourceQuota quota("incipit");
  quota.Resize(static_cast<size_t>(options.receive_memory_max));
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kWireMetadataBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.connection_streams_max);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             Milliseconds(options.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  // Disables compression, because the server would have to decompress a message before it can check
  // the size of the message.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
}

// Returns the maximum number of calls on one connection for CallTracker: twice
// --connection-streams-max. gRPC announces --connection-streams-max to clients, but a client can
// exceed this limit for a short time.
int32_t ConnectionCallsMax(int32_t streams_max) {
  return streams_max > std::numeric_limits<int32_t>::max() / 2 ? streams_max : 2 * streams_max;
}

// A gRPC server, and the listener that accepts its connections.
class Endpoint {
 public:
  static absl::StatusOr<std::unique_ptr<Endpoint>> Start(const Options& options,
                                                         std::string_view flag,
                                                         const HostPort& address,
                                                         grpc::ServerBuilder& builder) {
    std::unique_ptr<Endpoint> endpoint(new Endpoint);
    INCIPIT_ASSIGN_OR_RETURN(endpoint->listener_,
                             ConnectionListener::Bind(flag, address, options.keepalive_timeout));
    endpoint->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    endpoint->server_ = builder.BuildAndStart();
    if (endpoint->server_ == nullptr)
      return Unavailable("the gRPC server at --{} {} did not start", flag, ToString(address));
    endpoint->listener_->Start(
        [acceptor = endpoint->acceptor_.get()](int listening, int connection) {
          grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
          parameters.listener_fd = listening;
          parameters.fd = connection;
          acceptor->HandleNewConnection(&parameters);
        });
    return endpoint;
  }

  int port() const { return listener_->port(); }
  grpc::HealthCheckServiceInterface* health() { return server_->GetHealthCheckService(); }
  // Stops accepting connections, waits until `deadline` for calls in progress, and cancels the
  // remaining calls.
  void Stop(std::chrono::system_clock::time_point deadline) {
    listener_.reset();
    server_->Shutdown(deadline);
  }

 private:
  Endpoint() = default;

  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionListener> listener_;
};

ServedModel WithCacheTokens(const ServerParts& parts) {
  ServedModel model = parts.model;
  model.cache_tokens = int64_t{parts.engine.cache.num_blocks} * parts.engine.cache.block_size;
  return model;
}

// Returns a copy of `engine` with the limits of `options`. The limit for the number of requests is
// 2 * --requests-max. The engine also counts a request that has ended, until the end of the current
// step (batch). The doubled limit leaves room for these ended requests.
EngineOptions WithLimits(EngineOptions engine, const Options& options) {
  // The product cannot overflow, because --requests-max is at most 2^20.
  engine.requests_max = 2 * options.requests_max;
  engine.tier_drain_max = options.tier_drain_timeout;
  engine.arrival_pause_max = options.arrival_pause_max;
  return engine;
}

// Returns the formats in which the model writes tool calls and reasoning. --tool-parser and
// --reasoning-parser override the formats of the chat template.
OutputFormats FormatsOf(const Options& options, const ChatTemplate* chat_template) {
  OutputFormats formats = chat_template == nullptr ? OutputFormats() : chat_template->formats();
  if (options.tool_parser) formats.tools = *options.tool_parser;
  if (options.reasoning_parser) formats.reasoning = *options.reasoning_parser;
  return formats;
}

v1::GetModelInfoResponse ModelInfo(const ServerParts& parts) {
  const ServedModel& model = parts.model;
  const ModelDescription& description = parts.description;
  v1::GetModelInfoResponse out;
  out.set_name(model.name);
  out.set_architecture(description.architecture);
  out.set_dtype(description.dtype);
  out.set_kv_dtype(description.kv_dtype);
  out.set_num_parameters(description.num_parameters);
  out.set_vocab_size(static_cast<uint32_t>(model.vocab_size));
  out.set_max_model_len(static_cast<uint32_t>(model.max_model_len));
  out.set_num_layers(static_cast<uint32_t>(description.num_layers));
  out.set_hidden_size(static_cast<uint32_t>(description.hidden_size));
  out.set_num_heads(static_cast<uint32_t>(description.num_heads));
  out.set_num_kv_heads(static_cast<uint32_t>(description.num_kv_heads));
  out.set_head_dim(static_cast<uint32_t>(description.head_dim));
  out.set_has_tokenizer(model.has_tokenizer);
  out.set_has_chat_template(model.has_chat_template);
  for (const TokenId id : model.eos_ids) out.add_eos_token_ids(static_cast<uint32_t>(id));
  return out;
}

v1::GetServerInfoResponse ServerInfo(Options options, const ServerParts& parts) {
  const ModelDescription& description = parts.description;
  v1::GetServerInfoResponse out;
  out.set_version(INCIPIT_VERSION);
  out.set_backend(description.backend);
  out.set_backend_description(description.backend_description);
  Flags flags;
  BindOptions(options, flags);
  for (auto& [name, value] : flags.PublicValues())
    (*out.mutable_options())[name] = std::move(value);
  auto& resolved = *out.mutable_resolved();
  resolved["backend"] = description.backend;
  resolved["kv-blocks"] = fmt::to_string(parts.engine.cache.num_blocks);
  resolved["kv-dtype"] = description.kv_dtype;
  resolved["max-model-len"] = fmt::to_string(parts.model.max_model_len);
  resolved["model-name"] = parts.model.name;
  resolved["step-tokens"] = fmt::to_string(parts.engine.scheduler.step_tokens_max);
  return out;
}

ModelMetrics MetricsModel(const ServerParts& parts) {
  ModelMetrics out;
  out.name = parts.model.name;
  out.architecture = parts.description.architecture;
  out.dtype = parts.description.dtype;
  out.kv_dtype = parts.description.kv_dtype;
  out.backend = parts.description.backend;
  out.max_model_len = parts.model.max_model_len;
  out.block_size = parts.engine.cache.block_size;
  out.num_blocks = parts.engine.cache.num_blocks;
  return out;
}

// Returns the properties of the server that a gateway (a program that distributes requests over
// several servers) reads.
GatewayDescription GatewayInfo(const ServerParts& parts) {
  GatewayDescription out;
  out.architecture = parts.description.architecture;
  out.dtype = parts.description.dtype;
  out.kv_dtype = parts.description.kv_dtype;
  out.block_size = parts.engine.cache.block_size;
  if (parts.tokenizer == nullptr) return out;
  const auto& tokens = parts.tokenizer->config().special_tokens;
  const auto bos = tokens.find("bos_token");
  if (bos != tokens.end()) out.bos_id = parts.tokenizer->IdOf(bos->second);
  return out;
}

// Owns the disk cache. The destructor waits until the chunks in staging are written, but at most
// until `limit` has passed since BeginDrain.
class FlushedDiskTier {
 public:
  FlushedDiskTier(std::unique_ptr<DiskTier> tier, Duration limit, const Clock& clock)
      : tier_(std::move(tier)), limit_(limit), clock_(clock) {}
  ~FlushedDiskTier() {
    if (tier_ == nullptr) return;
    const bool is_flushed = tier_->Flush(std::max(Duration{}, deadline_ - clock_.Now()));
    spdlog::info("{} chunks were written to the disk cache after the last request",
                 tier_->published_stats().chunks_stored - num_stored_before_);
    if (!is_flushed)
      spdlog::warn("the server ends before all chunks are written to the disk cache");
  }
  DiskTier* get() const { return tier_.get(); }
  // Starts the time limit. Called after the last request has ended, and before the engine stores
  // the chunks that are only on the device.
  void BeginDrain() {
    if (tier_ == nullptr) return;
    deadline_ = clock_.Now() + limit_;
    num_stored_before_ = tier_->published_stats().chunks_stored;
  }

 private:
  const std::unique_ptr<DiskTier> tier_;
  const Duration limit_;
  const Clock& clock_;
  Time deadline_{};
  uint64_t num_stored_before_ = 0;
};

}  // namespace

// The objects of a server, in the order of their construction. The destructor destroys the objects
// in the reverse order.
class Server::Parts {
 public:
  Parts(const Options& server_options, ServerParts parts, ServerHooks server_hooks);
  ~Parts();

  absl::Status Listen();
  UnreadOutput Unread() const;
  // Starts to compute `prompts`, and sets `ready` when they have ended.
  void Prewarm(std::vector<PrewarmPrompt> prompts);
  // Creates a KvEventHub, which sends the events of the prefix cache to gateways, and starts its
  // thread.
  std::unique_ptr<KvEventHub> MakeKvEventHub();
  // Starts the HTTP server. If the default address is in use, logs a warning and starts no HTTP
  // server.
  absl::Status ListenHttp();
  // Waits until all calls of Generate, Chat and the HTTP API have ended, or until the time
  // `longest` has passed.
  void AwaitIdle(Duration longest);
  // Returns the maximum expected time of a step (batch) of the engine.
  Duration StepLongest() const;

  const Options options;
  const ServerHooks hooks;
  const SteadyClock clock;
  const ServedModel model;
  const v1::GetServerInfoResponse server_info;
  const v1::GetModelInfoResponse model_info;
  const ApiKeys keys;
  const GatewayDescription gateway_info;
  const std::unique_ptr<Tokenizer> tokenizer;
  const std::unique_ptr<ChatTemplate> chat_template;
  Health health;
  CallTracker calls;
  Metrics metrics;
  // Destroyed after `dispatcher`, because the sessions in `dispatcher` hold objects of the class
  // RequestCounter::Slot, whose destructor uses `requests`.
  RequestCounter requests;
  // Estimated number of bytes of output that all HTTP and gateway calls together keep in memory.
  // Each call keeps its part until the response of the call is complete. Destroyed after
  // `dispatcher`, because the sessions in `dispatcher` use `num_kept_bytes`.
  std::atomic<int64_t> num_kept_bytes{0};
  // State that all calls of gateways share. Destroyed after `dispatcher`, because the sessions in
  // `dispatcher` use `gateway_calls`.
  GatewayCalls gateway_calls{num_kept_bytes, {}};
  // Sends the events of the prefix cache to gateways; null if the gRPC service for gateways is
  // turned off (HasEngineApi returns false). Destroyed after `engine`, which reports the events.
  std::unique_ptr<KvEventHub> kv_events;
  // HTTP server; null if the server runs without HTTP. Destroyed after `dispatcher`, because the
  // sessions in `dispatcher` use connections of `http`.
  std::unique_ptr<HttpServer> http;
  TokenDispatcher dispatcher;
  // Destroyed after `engine`, which uses the disk cache until its end.
  FlushedDiskTier disk_tier;
  Engine engine;
  DrainSwitch drain;
  TextPool text_pool;
  const PromptEncoder encoder;
  SessionStarter starter;
  InferenceService inference;
  AdminService admin;
  // The gRPC service for gateways; null if the service is turned off (HasEngineApi returns false).
  std::unique_ptr<GatewayService> gateway;
  OpenAiRoutes routes;
  // The gRPC servers at --address and --admin-address. `admin_endpoint` is null if --admin-address
  // is not set.
  std::unique_ptr<Endpoint> endpoint, admin_endpoint;
  std::unique_ptr<Watchdog> watchdog;
  int metrics_port = 0;
  ReadySignal ready;
  // Null if there are no prompts to compute before the server is ready.
  std::unique_ptr<Prewarmer> prewarmer;
};

Server::Parts::Parts(const Options& server_options, ServerParts parts, ServerHooks server_hooks)
    : options(server_options),
      hooks(std::move(server_hooks)),
      model(WithCacheTokens(parts)),
      server_info(ServerInfo(options, parts)),
      model_info(ModelInfo(parts)),
      keys(std::move(parts.keys)),
      gateway_info(GatewayInfo(parts)),
      tokenizer(std::move(parts.tokenizer)),
      chat_template(std::move(parts.chat_template)),
      calls({.calls_max = options.streams_max,
             .connection_calls_max = ConnectionCallsMax(options.connection_streams_max)}),
      metrics({.vllm_names = options.metrics_compat == MetricsCompat::kVllm}),
      requests(options.requests_max),
      dispatcher({.tokenizer = tokenizer.get(),
                  .write_stall_timeout = options.write_stall_timeout,
                  .output_queue_bytes_max = options.output_queue_bytes_max,
                  .on_fatal =
                      [this](const absl::Status& status) {
                        spdlog::critical("the engine failed: {}", MessageOf(status));
                        health.Stop();
                        if (hooks.on_fatal) hooks.on_fatal(status);
                      }},
                 clock, metrics),
      disk_tier(std::move(parts.disk_tier), options.tier_drain_timeout, clock),
      engine(WithLimits(parts.engine, options), std::move(parts.runner), dispatcher, clock,
             disk_tier.get()),
      drain(engine, health, clock),
      text_pool({.num_threads = options.text_threads,
                 .tasks_max = options.text_queue_max,
                 .bytes_max = options.text_queue_bytes_max,
                 .tokens_max = options.waiting_prompt_tokens_max}),
      encoder(tokenizer.get(), chat_template.get(), options.allow_special_tokens_in_chat,
              FormatsOf(options, chat_template.get())),
      starter({options, model, encoder, engine, dispatcher, text_pool, requests, metrics, clock}),
      inference({options, model, tokenizer.get(), encoder, starter, calls, metrics, clock, keys}),
      admin({options, model, model_info, server_info, clock.Now(), engine, metrics, starter, calls,
             drain, clock, keys}),
      routes({options, model, tokenizer.get(), encoder, starter, calls, metrics, health, clock,
              keys, num_kept_bytes}) {
  dispatcher.Attach(engine);
  metrics.SetModelInfo(MetricsModel(parts));
  metrics.SetReportedTenants(ReportedTenants(options));
  metrics.SetLoadSource([this] { return engine.Load(); });
  if (disk_tier.get() != nullptr) {
    metrics.SetDiskCacheSource([this] { return disk_tier.get()->published_stats(); });
  }
  if (!HasEngineApi(options)) return;
  kv_events = MakeKvEventHub();
  gateway = std::make_unique<GatewayService>(
      GatewayContext{options, model, gateway_info, encoder, starter, gateway_calls, *kv_events,
                     calls, engine, metrics, health, keys, clock});
}

std::unique_ptr<KvEventHub> Server::Parts::MakeKvEventHub() {
  KvEventHubOptions hub_options;
  hub_options.block_size = engine.Load().block_size;
  hub_options.subscribers_max = options.kv_event_subscribers_max;
  hub_options.write_stall_timeout = options.write_stall_timeout;
  const auto meter = std::make_shared<LoadMeter>(engine, metrics, clock);
  const auto load = [this, meter] { return KvLoadOf(meter->Read(), options.running_max); };
  auto hub = std::make_unique<KvEventHub>(hub_options, SourceOf(engine, load), metrics, clock);
  hub->Start();
  return hub;
}

Server::Parts::~Parts() {
  // Ends the Prewarmer before drain.Stop() cancels its prompts. Otherwise, the Prewarmer would
  // report the stopping server as ready.
  if (prewarmer != nullptr) prewarmer->Stop();
  drain.SetOnDrain(nullptr);
  prewarmer.reset();
  drain.Stop();
  watchdog.reset();
  health.Stop();
  metrics.SetLoadSource(nullptr);
  metrics.SetDiskCacheSource(nullptr);
  metrics.SetUnreadSource(nullptr);
  dispatcher.CancelAll(
      WithRetryDelay(Refuse(Reason::kDraining, "the server is stopping"), kRetryDelayMin));
  if (kv_events != nullptr) kv_events->Stop();
  AwaitIdle(kFarewell);
  const auto deadline = std::chrono::system_clock::now() + kLastReplies;
  if (admin_endpoint != nullptr) admin_endpoint->Stop(deadline);
  if (endpoint != nullptr) endpoint->Stop(deadline);
  if (http != nullptr) http->Stop(kLastReplies);
  // Destroys the gRPC servers, which have stopped. Then ends the threads of `text_pool` and
  // `dispatcher`, because the objects that these threads use are destroyed next.
  admin_endpoint.reset();
  endpoint.reset();
  text_pool.Stop();
  dispatcher.Stop();
  disk_tier.BeginDrain();
}

absl::Status Server::Parts::Listen() {
  INCIPIT_ASSIGN_OR_RETURN(metrics_port, metrics.Start(options.metrics_address));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  std::vector<grpc::HealthCheckServiceInterface*> services;
  grpc::ServerBuilder builder;
  Configure(options, keys, builder);
  builder.RegisterService(&inference);
  if (gateway != nullptr) builder.RegisterService(gateway.get());
  if (!options.admin_address) {
    builder.RegisterService(&admin);
  } else {
    grpc::ServerBuilder admin_builder;
    Configure(options, keys, admin_builder);
    admin_builder.RegisterService(&admin);
    INCIPIT_ASSIGN_OR_RETURN(
        admin_endpoint,
        Endpoint::Start(options, "admin-address", *options.admin_address, admin_builder));
    services.push_back(admin_endpoint->health());
  }
  INCIPIT_ASSIGN_OR_RETURN(endpoint, Endpoint::Start(options, "address", options.address, builder));
  services.push_back(endpoint->health());
  INCIPIT_RETURN_IF_ERROR(ListenHttp());
  metrics.SetUnreadSource([this] { return Unread(); });
  Watchdog::Hooks watch;
  watch.heartbeat = [this] { return engine.heartbeat(); };
  watch.step_longest = [this] { return StepLongest(); };
  watch.on_change = [this](bool goes_on) {
    if (goes_on) {
      spdlog::warn("the engine makes progress again");
    } else {
      spdlog::critical("the engine makes no progress");
    }
    health.SetHanging(!goes_on);
  };
  watch.on_stuck = hooks.on_stuck ? hooks.on_stuck : [] {};
  health.Start(std::move(services));
  watchdog = std::make_unique<Watchdog>(std::move(watch));
  watchdog->Start();
  return absl::OkStatus();
}

absl::Status Server::Parts::ListenHttp() {
  const HttpAddress& where = options.http_address;
  if (!where.is_on) return absl::OkStatus();
  HttpServerOptions http_options;
  http_options.limits.head_bytes_max = static_cast<size_t>(options.metadata_bytes_max);
  http_options.limits.body_bytes_max = static_cast<size_t>(options.message_bytes_max);
  http_options.limits.write_time_max = options.write_stall_timeout;
  http_options.connections_max = options.http_connections_max;
  http_options.body_memory_max = options.receive_memory_max;
  http_options.unacknowledged_max = options.keepalive_timeout;
  HttpHandlers handlers;
  handlers.check = [this](const HttpRequestHead& head) { return routes.Check(head); };
  handlers.handle = [this](std::shared_ptr<HttpExchange> exchange) {
    routes.Handle(std::move(exchange));
  };
  handlers.error = [](int status, std::string_view message) {
    return ErrorResponse(status, message);
  };
  auto started =
      HttpServer::Start("http-address", where.address, http_options, std::move(handlers));
  if (!started.ok() && where.is_required) return started.status();
  if (started.ok()) {
    http = *std::move(started);
  } else {
    spdlog::warn("no HTTP server: {}", MessageOf(started.status()));
  }
  return absl::OkStatus();
}

void Server::Parts::Prewarm(std::vector<PrewarmPrompt> prompts) {
  if (prompts.empty()) {
    ready.Set();
    return;
  }
  spdlog::info("computing {} prompts of --prewarm before the server is ready", prompts.size());
  PrewarmOptions prewarm;
  prewarm.time_max = options.prewarm_timeout;
  prewarm.running_max = std::min(kPrewarmRunningMax, options.requests_max);
  prewarm.priority = options.request.priority_min;
  if (DiskTier* const tier = disk_tier.get(); tier != nullptr) {
    prewarm.is_tier_starting = [tier] {
      return tier->published_stats().state == TierState::kStarting;
    };
  }
  prewarm.on_done = [this](const PrewarmFigures&) {
    health.SetPrewarming(false);
    ready.Set();
  };
  prewarmer = std::make_unique<Prewarmer>(std::move(prewarm), std::move(prompts), starter, clock);
  prewarmer->Start();
  drain.SetOnDrain([this] { prewarmer->Cancel(); });
}

UnreadOutput Server::Parts::Unread() const {
  UnreadOutput unread;
  unread.num_waiting_bytes = dispatcher.num_waiting_bytes();
  unread.num_kept_bytes = num_kept_bytes;
  if (http != nullptr) unread.num_sending_bytes = http->num_unwritten_bytes();
  return unread;
}

void Server::Parts::AwaitIdle(Duration longest) {
  const auto idle = std::make_shared<std::promise<void>>();
  const uint64_t ticket = calls.WhenIdle([idle] { idle->set_value(); });
  idle->get_future().wait_for(longest);
  calls.Forget(ticket);
}

Duration Server::Parts::StepLongest() const {
  const Duration expected = options.step_tokens ? kUnknownStep : kMeasuredStep;
  return std::max(expected, dispatcher.step_longest());
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() = default;

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const Options& options, ServerParts parts,
                                                      ServerHooks hooks) {
  std::vector<PrewarmPrompt> prompts = std::exchange(parts.prewarm, {});
  auto made = std::make_unique<Parts>(options, std::move(parts), std::move(hooks));
  made->health.SetPrewarming(!prompts.empty());
  INCIPIT_RETURN_IF_ERROR(made->Listen());
  made->Prewarm(std::move(prompts));
  return std::unique_ptr<Server>(new Server(std::move(made)));
}

int32_t Server::grpc_port() const { return parts_->endpoint->port(); }
std::optional<int32_t> Server::http_port() const {
  if (parts_->http == nullptr) return std::nullopt;
  return parts_->http->port();
}
int32_t Server::metrics_port() const { return parts_->metrics_port; }
int32_t Server::admin_port() const {
  const auto& own = parts_->admin_endpoint;
  return own == nullptr ? grpc_port() : own->port();
}
void Server::WhenReady(std::function<void()> on_ready) { parts_->ready.Call(std::move(on_ready)); }
void Server::BeginDrain() { parts_->drain.Stop(); }
void Server::WhenIdle(std::function<void()> on_idle) { parts_->calls.WhenIdle(std::move(on_idle)); }

}  // namespace incipit
