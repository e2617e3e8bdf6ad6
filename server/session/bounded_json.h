// Parses the JSON texts of one request in linear time, with limits on size, nesting depth and
// number of values.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace incipit {

class BoundedJsonReader {
 public:
  static constexpr int kDepthMax = 32;  // maximum number of objects and arrays inside each other

  // `bytes_max` is the maximum size of each JSON text. `members_max` is the maximum number of
  // object members and array elements that all texts of the reader have together, with the values
  // of Count.
  BoundedJsonReader(int64_t bytes_max, int64_t members_max)
      : bytes_max_(bytes_max), members_max_(members_max), num_left_(members_max) {}

  // Parses `text`, which must be a JSON object. If several members have the same name, the object
  // has one member with the last value, at the position of the first. An error names `field` and
  // the exceeded limit.
  absl::StatusOr<nlohmann::ordered_json> Read(absl::FunctionRef<std::string()> field,
                                              std::string_view text);
  // Counts `num_values` values that are in no JSON text as if a text had them. Returns an error
  // that names `field` if the request has too many values.
  absl::Status Count(absl::FunctionRef<std::string()> field, int64_t num_values);

 private:
  absl::Status TooManyValues(absl::FunctionRef<std::string()> field) const;

  const int64_t bytes_max_, members_max_;
  // Number of object members and array elements that the texts of later calls of Read may have
  // together.
  int64_t num_left_;
};

}  // namespace incipit
