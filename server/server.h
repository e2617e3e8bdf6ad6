// The running server: everything between a model and the sockets, built in order and taken down in
// reverse. `incipit serve` and the tests start the same one.
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

// What Admin.GetModelInfo and GetServerInfo say beside ServedModel.
struct ModelDescription {
  std::string architecture, dtype, kv_dtype;
  uint64_t num_parameters = 0;
  int32_t num_layers = 0, hidden_size = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::string backend, backend_description;
};

// What is served.
struct ServerParts {
  ServedModel model;
  ModelDescription description;
  std::unique_ptr<Tokenizer> tokenizer;         // may be null: token ids only
  std::unique_ptr<ChatTemplate> chat_template;  // may be null: no Chat
  std::unique_ptr<ModelRunner> runner;
  EngineOptions engine;
};

// What the owner is told, from any thread. It must not destroy the server there.
struct ServerHooks {
  std::function<void(const absl::Status&)> on_fatal;  // the engine has failed for good
  std::function<void()> on_stuck;                     // the engine hangs
};

class Server {
 public:
  // Serves when it returns. UNAVAILABLE naming an address that cannot be bound; INVALID_ARGUMENT.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Options& options, ServerParts parts,
                                                       ServerHooks hooks);
  // Ends every call at once: with UNAVAILABLE those that have not ended.
  ~Server();

  int32_t grpc_port() const;
  int32_t metrics_port() const;
  int32_t admin_port() const;  // grpc_port() unless the Admin service has its own

  // Health turns NOT_SERVING and new requests are refused; those that run go on. Admin.Resume does
  // not undo it. Thread-safe.
  void BeginDrain();
  // Calls `on_idle` once, from any thread, when no call of Generate or Chat is in progress.
  void WhenIdle(std::function<void()> on_idle);

 private:
  class Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace incipit
