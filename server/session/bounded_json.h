// JSON texts of one request: parsed in linear time, bounded in depth and in members.
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
  static constexpr int kDepthMax = 32;

  // `bytes_max`: of one text. `members_max`: members of objects and elements of arrays, of all the
  // texts that this reader reads.
  BoundedJsonReader(int64_t bytes_max, int64_t members_max)
      : bytes_max_(bytes_max), members_max_(members_max), num_left_(members_max) {}

  // Parses `text`, which must be an object. Of members with one name the last value counts, in the
  // position of the first, as in Python. An error names `field()` and the bound.
  absl::StatusOr<nlohmann::ordered_json> Read(absl::FunctionRef<std::string()> field,
                                              std::string_view text);

 private:
  const int64_t bytes_max_, members_max_;
  int64_t num_left_;
};

}  // namespace incipit
