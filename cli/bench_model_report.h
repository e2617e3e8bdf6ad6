// What `incipit bench-model` says about a measurement.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench_model_run.h"

namespace incipit {

nlohmann::ordered_json ToJson(const BenchModelResult& result);
// For people: a table.
std::string Describe(const BenchModelResult& result);

}  // namespace incipit
