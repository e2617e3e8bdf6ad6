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
  // Names of members of the outermost JSON object that may contain long lists of token ids.
  // Integers inside these members do not count against the maximum number of values.
  using Uncounted = std::span<const std::string_view>;

  // Default of the maximum nesting depth (number of objects and arrays inside each other).
  static constexpr int kDepthMax = 32;

  // `bytes_max` is the maximum size of each JSON text in bytes. `members_max` is the maximum number
  // of values of the request: object members and array elements in all texts, plus the numbers
  // passed to Count. `depth_max` is the maximum nesting depth. REQUIRES: the names in `uncounted`
  // outlive the reader.
  BoundedJsonReader(int64_t bytes_max, int64_t members_max, int depth_max = kDepthMax,
                    Uncounted uncounted = {})
      : bytes_max_(bytes_max),
        members_max_(members_max),
        depth_max_(depth_max),
        uncounted_(uncounted),
        num_left_(members_max) {}

  // Parses `text`, which must be a JSON object. If several members of an object have the same name,
  // keeps only the last value. An error names the request field that `field` returns. If a limit is
  // exceeded, the error also contains the limit.
  absl::StatusOr<nlohmann::ordered_json> Read(absl::FunctionRef<std::string()> field,
                                              std::string_view text);
  // Adds `num_values` to the number of JSON values of the request. If the sum exceeds the maximum
  // number of values, returns an error that names the request field that `field` returns.
  absl::Status Count(absl::FunctionRef<std::string()> field, int64_t num_values);

 private:
  absl::Status TooManyValues(absl::FunctionRef<std::string()> field) const;

  const int64_t bytes_max_, members_max_;
  const int depth_max_;
  const Uncounted uncounted_;
  // Number of values (object members and array elements) that later calls of Read and Count may
  // still add.
  int64_t num_left_;
};

}  // namespace incipit
