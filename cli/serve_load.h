// Loads what a server computes with: the device, the model, its text and its runner.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "server/options.h"
#include "server/server.h"
#include "transformer/model.h"

namespace incipit {

// Outlives the server that is started with `parts`: the runner refers to backend and model.
struct Loaded {
  std::unique_ptr<Backend> backend;
  std::optional<Model> model;
  ServerParts parts;
};

// Fills `loaded`. An error carries an exit code.
absl::Status LoadApart(const Options& options, Loaded& loaded);

// Returns the exit code that `status` carries; kExitFailure if `status` carries none.
int ExitCodeOf(const absl::Status& status);

}  // namespace incipit
