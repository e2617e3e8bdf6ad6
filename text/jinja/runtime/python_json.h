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

// Reads the values of one request. All values get the origin kRequest. All functions return
// INVALID_ARGUMENT for strings that are not UTF-8, for integers of more than 64 bits, and for
// values that are nested too deep.
class JsonReader {
 public:
  using Json = nlohmann::ordered_json;

  explicit JsonReader(Heap& heap) : heap_(heap) {}

  absl::StatusOr<Value> Read(const Json& json) { return Read(json, 1); }
  // Reads the list of messages. A role for which `is_plain` returns true gets the origin kTemplate;
  // everything else gets the origin kRequest.
  absl::StatusOr<Value> ReadMessages(const Json& json, bool (*is_plain)(std::string_view role));

 private:
  absl::StatusOr<Value> ReadString(std::string_view text, Origin origin = Origin::kRequest);
  absl::StatusOr<Value> Read(const Json& json, int depth);
  absl::StatusOr<Value> ReadArray(const Json& json, int depth);
  absl::StatusOr<Value> ReadObject(const Json& json, int depth,
                                   bool (*is_plain)(std::string_view role));
  absl::StatusOr<Value> ReadKey(const std::string& name);

  Heap& heap_;
  std::array<Value, 64> keys_;  // cache of recently read keys of objects, by hash
};

}  // namespace incipit::jinja
