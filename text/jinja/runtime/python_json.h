// Converts JSON to values of a template, like json.loads of Python.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/heap.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

// Converts the JSON values of one request to values of a template. All values are marked as written
// by a client, except the roles of messages, such as "user". Returns INVALID_ARGUMENT for invalid
// UTF-8, an integer of more than 64 bits, or too deep nesting.
class JsonReader {
 public:
  using Json = nlohmann::ordered_json;
  using IsPlain = bool(std::string_view role);

  explicit JsonReader(Heap& heap) : heap_(heap) {}

  absl::StatusOr<Value> Read(const Json& json) { return Read(json, 1); }
  // Converts `json`, a list of messages. All values are marked as written by a client (kRequest),
  // except the roles for which is_plain(role) is true.
  absl::StatusOr<Value> ReadMessages(const Json& json, IsPlain* is_plain) {
    return json.is_array() ? ReadArray(json, 1, is_plain) : Read(json);
  }

 private:
  absl::StatusOr<Value> ReadString(std::string_view text, Origin origin = Origin::kRequest);
  absl::StatusOr<Value> Read(const Json& json, int depth);
  absl::StatusOr<Value> ReadArray(const Json& json, int depth, IsPlain* is_plain);
  absl::StatusOr<Value> ReadObject(const Json& json, int depth, IsPlain* is_plain);
  absl::StatusOr<Value> ReadKey(const std::string& name);

  Heap& heap_;
  // Cache of recently converted keys of JSON objects. The hash of a key determines the index of the
  // key in this array.
  std::array<Value, 64> keys_;
};

}  // namespace incipit::jinja
