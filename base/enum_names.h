// Names of the values of an enumeration. One list per enumeration serves flags, configuration
// files, messages and reports.
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

// A view of a constant list. The first name of a value is its canonical name; other names are
// aliases.
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

// Returns the value that has the name `name` in `names`, or nothing if there is none.
template <typename Names>
constexpr auto ValueIn(const Names& names, std::string_view name) {
  using Value = decltype(std::ranges::begin(names)->value);
  const auto found = std::ranges::find(names, name, &EnumName<Value>::name);
  return found == std::ranges::end(names) ? std::nullopt : std::optional<Value>(found->value);
}

// Returns the names of the list in order, separated by commas.
template <typename Names>
std::string JoinedNames(const Names& names) {
  std::string joined;
  for (const auto& named : names) joined.append(joined.empty() ? "" : ", ").append(named.name);
  return joined;
}

}  // namespace incipit
