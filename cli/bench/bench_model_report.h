// Formats the measurements of `incipit bench-model` as JSON and as a text table.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench/bench_model_run.h"

namespace incipit {

// Returns the measurements of `incipit bench-model` as one JSON object. If `has_profile` is true,
// the object also contains the share of time of each operation, such as attention.
nlohmann::ordered_json ToJson(const BenchModelResult& result, bool has_profile);
// Returns the measurements of `incipit bench-model` as a text table. If `has_profile` is true, the
// text also contains one line for each operation, such as attention.
std::string Describe(const BenchModelResult& result, bool has_profile);

}  // namespace incipit
