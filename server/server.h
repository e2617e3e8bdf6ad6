// The server with its gRPC and HTTP interfaces. `incipit serve` and the tests create servers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/model_runner.h"
#include "server/options.h"
#include "server/prewarm/prewarm_file.h"
#include "server/session/api_keys.h"
#include "server/session/request/checked_request.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"
#include "tier/disk_tier.h"

namespace incipit {

// Properties of the model and of the backend (CPU or GPU). Clients read these properties with
// Admin.GetModelInfo and Admin.GetServerInfo.
struct ModelDescription {
  std::string architecture, dtype, kv_dtype;
  uint64_t num_parameters = 0;
  int32_t num_layers = 0, hidden_size = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::string backend, backend_description;
};

// The model and the other objects from which Server::Start creates a server. Server::Start moves
// all members into the server.
struct ServerParts {
  ServedModel model;
  ModelDescription description;
  // Null if the model has no tokenizer: prompts and outputs are then token ids, without text.
  std::unique_ptr<Tokenizer> tokenizer;
  // Chat template of the model. If null, the server refuses chat requests.
  std::unique_ptr<ChatTemplate> chat_template;
  std::unique_ptr<ModelRunner> runner;
  EngineOptions engine;
  std::unique_ptr<DiskTier> disk_tier;  // null: no disk cache
  ApiKeys keys;                         // API keys with which clients may call the server
  std::vector<PrewarmPrompt> prewarm;   // prompts that are computed before the server is ready
};

// Callbacks for failures of the engine. A callback may run on any thread, and must not destroy the
// server.
struct ServerHooks {
  // Called when the engine has failed and cannot continue. The argument is the error of the engine.
  std::function<void(const absl::Status&)> on_fatal;
  // Called when the engine has made no progress for so long that the program should end its
  // process.
  std::function<void()> on_stuck;
};

// A server that accepts calls from its creation by Start until its destruction. While the server
// computes ServerParts::prewarm, its health state is NOT_SERVING, although it accepts calls.
class Server {
 public:
  // Creates a server that accepts calls. Returns UNAVAILABLE if an address cannot be bound. The
  // error message then contains the address.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Options& options, ServerParts parts,
                                                       ServerHooks hooks);
  // Stops the server. All calls in progress end immediately with the error UNAVAILABLE.
  ~Server();

  int32_t grpc_port() const;
  int32_t metrics_port() const;
  // Port of the HTTP server; absent if there is no HTTP server.
  std::optional<int32_t> http_port() const;
  // Port of the gRPC service Admin. The port is grpc_port() if --admin-address is not set.
  int32_t admin_port() const;

  // Calls `on_ready` once, when the prompts of ServerParts::prewarm are computed or cancelled.
  // Without prompts, calls `on_ready` at once. `on_ready` may run on any thread. REQUIRES: called
  // at most once.
  void WhenReady(std::function<void()> on_ready);
  // Starts to drain: the server refuses new requests and reports the health state NOT_SERVING.
  // Running requests continue. Admin.Resume cannot undo this drain. Thread-safe.
  void BeginDrain();
  // Calls `on_idle` once, as soon as no call of Generate, Chat or the HTTP API is in progress.
  // `on_idle` may run on any thread.
  void WhenIdle(std::function<void()> on_idle);

 private:
  class Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace incipit
