// Names of an enumeration's values, listed once for flags, configuration files, messages and
// reports.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"

namespace incipit {

template <typename T>
struct EnumName {
  T value;
  std::string_view name;
};

// A view of a constant list. The first name of a value is its own; the later ones are aliases.
template <typename T>
using EnumNames = std::span<const EnumName<T>>;

// Returns the value's own name in `names`, a list of EnumName<T>. REQUIRES: `names` has `value`.
template <typename Names, typename T>
constexpr std::string_view NameIn(const Names& names, T value) {
  const auto found = std::ranges::find(names, value, &EnumName<T>::value);
  INCIPIT_CHECK(found != std::ranges::end(names));
  return found->name;
}

// Returns the value that `name` stands for in `names`, if it is one of them.
template <typename Names>
constexpr auto ValueIn(const Names& names, std::string_view name) {
  using Value = decltype(std::ranges::begin(names)->value);
  const auto found = std::ranges::find(names, name, &EnumName<Value>::name);
  return found == std::ranges::end(names) ? std::nullopt : std::optional<Value>(found->value);
}

// Returns the names of the list, in its order, with commas in between.
template <typename Names>
std::string JoinedNames(const Names& names) {
  std::string joined;
  for (const auto& named : names) joined.append(joined.empty() ? "" : ", ").append(named.name);
  return joined;
}

}  // namespace incipit
