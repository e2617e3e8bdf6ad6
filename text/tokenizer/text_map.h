// Hash maps and sets with strings as keys. A lookup by std::string_view does not copy the string.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace incipit {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

template <typename Value>
using TextMap = absl::flat_hash_map<std::string, Value, TextHash, std::equal_to<>>;
using TextSet = absl::flat_hash_set<std::string, TextHash, std::equal_to<>>;

}  // namespace incipit
