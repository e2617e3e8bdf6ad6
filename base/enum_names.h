// Declares lists of the names of an enumeration's values. Flags, configuration files, messages and
// reports use the same list.
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

// A view of a constant list of names. If a value has several names, the first name is the canonical
// name and the others are aliases.
template <typename T>
using EnumNames = std::span<const EnumName<T>>;

// Returns the canonical name of `value` in `names`, a list of EnumName<T>.
// REQUIRES: `names` contains `value`.
template <typename Names, typename T>
constexpr std::string_view NameIn(const Names& names, T value) {
  const auto found = std::ranges::find(names, value, &EnumName<T>::value);
  INCIPIT_CHECK(found != std::ranges::end(names));
  return found->name;
}

// Returns the value with the name `name` in `names`, or nullopt if no value has this name.
template <typename Names>
constexpr auto ValueIn(const Names& names, std::string_view name) {
  using Value = decltype(std::ranges::begin(names)->value);
  const auto found = std::ranges::find(names, name, &EnumName<Value>::name);
  return found == std::ranges::end(names) ? std::nullopt : std::optional<Value>(found->value);
}

// Returns all names of the list `names` in order, separated by commas.
template <typename Names>
std::string JoinedNames(const Names& names) {
  std::string joined;
  for (const auto& named : names) joined.append(joined.empty() ? "" : ", ").append(named.name);
  return joined;
}

}  // namespace incipit
