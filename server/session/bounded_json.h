// Parses the JSON texts of one request in linear time, with limits on size, nesting depth and
// number of values.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace incipit {

class BoundedJsonReader {
 public:
  // Names of members of the outermost object. The integers in the values of these members do not
  // count as values, so that a text can contain a long list of token ids.
  using Uncounted = std::span<const std::string_view>;

  // Default for the maximum number of objects and arrays inside each other.
  static constexpr int kDepthMax = 32;

  // `bytes_max` is the maximum size of each JSON text. `members_max` is the maximum number of
  // values: object members and array elements in all texts, and the values that Count adds.
  // REQUIRES: the array of `uncounted` outlives the reader.
  BoundedJsonReader(int64_t bytes_max, int64_t members_max, int depth_max = kDepthMax,
                    Uncounted uncounted = {})
      : bytes_max_(bytes_max),
        members_max_(members_max),
        depth_max_(depth_max),
        uncounted_(uncounted),
        num_left_(members_max) {}

  // Parses `text`, which must be a JSON object. Of several members with the same name, only the
  // last value is kept. An error names `field` and the exceeded limit.
  absl::StatusOr<nlohmann::ordered_json> Read(absl::FunctionRef<std::string()> field,
                                              std::string_view text);
  // Adds `num_values` to the number of values of the request. Returns an error that names `field`
  // if the request has more than the maximum number of values.
  absl::Status Count(absl::FunctionRef<std::string()> field, int64_t num_values);

 private:
  absl::Status TooManyValues(absl::FunctionRef<std::string()> field) const;

  const int64_t bytes_max_, members_max_;
  const int depth_max_;
  const Uncounted uncounted_;
  // Maximum number of values (object members and array elements) that later calls of Read and Count
  // may add.
  int64_t num_left_;
};

}  // namespace incipit
