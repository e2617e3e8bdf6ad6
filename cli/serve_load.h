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

// The loaded backend, the loaded model and the other parts of a server. REQUIRES: this object
// outlives the server, because the runner in `parts` refers to `backend` and `model`.
struct Loaded {
  std::unique_ptr<Backend> backend;
  std::optional<Model> model;
  ServerParts parts;
};

// Loads backend, model and all parts of the server into `loaded`, on a separate thread. If loading
// fails, the returned status contains an exit code (see ExitCodeOf()).
absl::Status LoadApart(const Options& options, Loaded& loaded);

// Returns the exit code that LoadApart() stored in `status`, or kExitFailure if `status` contains
// no exit code.
int ExitCodeOf(const absl::Status& status);

}  // namespace incipit
