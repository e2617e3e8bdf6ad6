// JSON in, as the values that Python's json.loads makes, and out, as its json.dumps writes it.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace incipit::jinja {

class Interpreter;

// INVALID_ARGUMENT for strings that are no UTF-8 and for what is nested too deep. `origin` is that
// of everything in it.
absl::StatusOr<Value> FromJson(Heap& heap, const nlohmann::ordered_json& json, Origin origin);

// The filter tojson: json.dumps(value, ensure_ascii=False, indent=None, separators=None,
// sort_keys=False).
absl::StatusOr<Value> ToJsonFilter(Interpreter& in, Arguments& arguments);

}  // namespace incipit::jinja
