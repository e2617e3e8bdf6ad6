// Converts JSON to the values that Python's json.loads creates.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/heap.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

// Reads values of one request, which are marked as such. All functions return INVALID_ARGUMENT for
// strings that are no UTF-8, integers beyond 64 bits and what is nested too deep.
class JsonReader {
 public:
  using Json = nlohmann::ordered_json;

  explicit JsonReader(Heap& heap) : heap_(heap) {}

  absl::StatusOr<Value> Read(const Json& json) { return Read(json, 1); }
  // Messages are the request's, but for a role that `is_plain`, which is the template's.
  absl::StatusOr<Value> ReadMessages(const Json& json, bool (*is_plain)(std::string_view role));

 private:
  absl::StatusOr<Value> ReadString(std::string_view text, Origin origin = Origin::kRequest);
  absl::StatusOr<Value> Read(const Json& json, int depth);
  absl::StatusOr<Value> ReadArray(const Json& json, int depth);
  absl::StatusOr<Value> ReadObject(const Json& json, int depth,
                                   bool (*is_plain)(std::string_view role));
  absl::StatusOr<Value> ReadKey(const std::string& name);

  Heap& heap_;
  std::array<Value, 64> keys_;  // some of those that were read, by hash: most come again
};

}  // namespace incipit::jinja
