// JSON as the values that Python's json.loads makes.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/heap.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

// INVALID_ARGUMENT for strings that are no UTF-8, integers beyond 64 bits
// and what is nested too deep. `origin` is that
// of everything in it.
absl::StatusOr<Value> FromJson(Heap& heap, const nlohmann::ordered_json& json, Origin origin);

}  // namespace incipit::jinja
