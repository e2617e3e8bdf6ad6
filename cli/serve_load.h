// Creates the parts of a server: backend, model, tokenizer, chat template and runner.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "server/options.h"
#include "server/server.h"
#include "transformer/model.h"

namespace incipit {

// The loaded backend, model and parts of a server. REQUIRES: a Loaded outlives the server that is
// started with `parts`, because the runner refers to backend and model.
struct Loaded {
  std::unique_ptr<Backend> backend;
  std::optional<Model> model;
  ServerParts parts;
};

// Loads all parts into `loaded` on a separate thread. An error contains an exit code, which
// ExitCodeOf() returns.
absl::Status LoadApart(const Options& options, Loaded& loaded);

// Returns the exit code that `status` contains, or kExitFailure if `status` contains none.
int ExitCodeOf(const absl::Status& status);

}  // namespace incipit
