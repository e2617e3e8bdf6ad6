// Formats the measurements of `incipit bench-model` as JSON and as a text table.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench/bench_model_run.h"

namespace incipit {

// Returns the measurements of `incipit bench-model` as one JSON object. If `has_profile` is true,
// adds the share of time of each operation.
nlohmann::ordered_json ToJson(const BenchModelResult& result, bool has_profile);
// Returns the measurements of `incipit bench-model` as a text table. If `has_profile` is true, adds
// one row for each operation.
std::string Describe(const BenchModelResult& result, bool has_profile);

}  // namespace incipit
