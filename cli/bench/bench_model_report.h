// What `incipit bench-model` says about a measurement.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench/bench_model_run.h"

namespace incipit {

// `has_profile`: with what each operation took.
nlohmann::ordered_json ToJson(const BenchModelResult& result, bool has_profile);
// For people: a table.
std::string Describe(const BenchModelResult& result, bool has_profile);

}  // namespace incipit
