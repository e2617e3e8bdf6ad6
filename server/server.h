// The running server: all components between the model and the sockets. The command `incipit serve`
// and the tests use the same class Server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/model_runner.h"
#include "server/options.h"
#include "server/session/checked_request.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

// The properties of model and backend that Admin.GetModelInfo and Admin.GetServerInfo report,
// without the properties in ServedModel.
struct ModelDescription {
  std::string architecture, dtype, kv_dtype;
  uint64_t num_parameters = 0;
  int32_t num_layers = 0, hidden_size = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::string backend, backend_description;
};

// The model and the components that a Server takes over from its creator.
struct ServerParts {
  ServedModel model;
  ModelDescription description;
  std::unique_ptr<Tokenizer> tokenizer;  // null: the server accepts and returns token ids only
  std::unique_ptr<ChatTemplate> chat_template;  // null: the server does not offer Chat
  std::unique_ptr<ModelRunner> runner;
  EngineOptions engine;
};

// Callbacks for failures of the engine. The callbacks may run on any thread and must not destroy
// the server.
struct ServerHooks {
  std::function<void(const absl::Status&)> on_fatal;  // called when the engine has failed for good
  std::function<void()> on_stuck;                     // called when the engine hangs for good
};

// A running server. Start creates the server, and the destructor stops the server.
class Server {
 public:
  // Starts a server, which accepts calls when Start returns. Returns UNAVAILABLE with the address
  // if an address cannot be bound.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Options& options, ServerParts parts,
                                                       ServerHooks hooks);
  // Stops the server. Calls in progress end at once with UNAVAILABLE.
  ~Server();

  int32_t grpc_port() const;
  int32_t metrics_port() const;
  int32_t admin_port() const;  // equal to grpc_port() unless --admin-address is set

  // Starts to drain the server for good: the health state becomes NOT_SERVING, new requests are
  // refused, and running requests continue. Admin.Resume cannot end this draining. Thread-safe.
  void BeginDrain();
  // Calls `on_idle` once, on any thread, when no call of Generate or Chat is in progress.
  void WhenIdle(std::function<void()> on_idle);

 private:
  class Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace incipit
