// Declares lists that contain the name of each value of an enumeration. Command-line flags,
// configuration files, error messages and reports use the same list.
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

// A view of a constant list of (value, name) pairs of an enumeration. If the list has several names
// for a value, the first name is the canonical name and the others are aliases.
template <typename T>
using EnumNames = std::span<const EnumName<T>>;

// Returns the canonical name of `value`: the first name that the list `names` has for `value`.
// REQUIRES: `names` contains `value`.
template <typename Names, typename T>
constexpr std::string_view NameIn(const Names& names, T value) {
  const auto found = std::ranges::find(names, value, &EnumName<T>::value);
  INCIPIT_CHECK(found != std::ranges::end(names));
  return found->name;
}

// Returns the enumeration value that has the name `name` in the list `names`. Returns nullopt if
// the list does not contain this name.
template <typename Names>
constexpr auto ValueIn(const Names& names, std::string_view name) {
  using Value = decltype(std::ranges::begin(names)->value);
  const auto found = std::ranges::find(names, name, &EnumName<Value>::name);
  return found == std::ranges::end(names) ? std::nullopt : std::optional<Value>(found->value);
}

// Returns all names of the list `names`, separated by commas, in the order of the list.
template <typename Names>
std::string JoinedNames(const Names& names) {
  std::string joined;
  for (const auto& named : names) joined.append(joined.empty() ? "" : ", ").append(named.name);
  return joined;
}

}  // namespace incipit
