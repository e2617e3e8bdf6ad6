// Declares a table of command-line flags. Each flag has a name, a help text, and a variable that
// receives the checked value. All commands of the program use this parser, so their help texts and
// error messages have the same form.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/enum_names.h"

namespace incipit {

// A range of allowed values, from `min` to `max`, both included.
template <typename T>
struct FlagRange {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};

// The texts of a flag. The help shows `--name VALUE`, then `help`. `name` contains no leading
// dashes.
struct FlagText {
  std::string_view name;
  // Placeholder for the value in the help, such as HOST:PORT; empty for a switch.
  std::string_view value;
  std::string_view help;    // one or more sentences, to which the help adds range and default
  bool is_private = false;  // true: the value is a path or a secret, which PublicValues() omits
};

// A table of flags that are bound to variables. The variables must outlive the table. The default
// of a flag is the value of its variable at the time of binding. Names and texts must be string
// literals.
//
// The parser accepts `--flag value` and `--flag=value`. A switch needs no value. If a flag is
// repeated, the last value is used. Every error is INVALID_ARGUMENT, and its message contains the
// flag, the value and the bound.
class Flags {
 public:
  // Begins a group of flags. The help lists all flags that are bound after this call under the
  // heading `title`.
  void Group(std::string_view title) { group_ = title; }

  void String(FlagText text, std::string& target);
  void String(FlagText text, std::optional<std::string>& target);
  // Binds a flag that may be repeated. The first occurrence replaces the default, and each further
  // occurrence appends a value.
  void Strings(FlagText text, std::vector<std::string>& target);
  // Binds a switch, which accepts `--flag`, `--flag=on|off|true|false` and `--flag
  // on|off|true|false`.
  void Switch(FlagText text, bool& target);
  // Binds a flag whose allowed values are the names in `names`, which must outlive the table. If
  // the user passed an alias, Values() returns the alias.
  template <typename T>
  requires std::is_enum_v<T>
  void Enum(FlagText text, T& target, std::type_identity_t<EnumNames<T>> names) {
    std::vector<std::string_view> all;
    for (const EnumName<T>& one : names) all.push_back(one.name);
    AddNames(
        text, std::move(all), [&target, names](size_t index) { target = names[index].value; },
        [&target, names] { return IndexOf(names, target); });
  }
  // Binds a flag whose value may be absent. The user passes the name `absent` for an absent value;
  // the help lists this name first.
  template <typename T>
  requires std::is_enum_v<T>
  void Enum(FlagText text, std::optional<T>& target, std::string_view absent,
            std::type_identity_t<EnumNames<T>> names) {
    std::vector<std::string_view> all = {absent};
    for (const EnumName<T>& one : names) all.push_back(one.name);
    AddNames(
        text, std::move(all),
        [&target, names](size_t index) {
          target = index == 0 ? std::nullopt : std::optional<T>(names[index - 1].value);
        },
        [&target, names] { return target ? IndexOf(names, *target) + 1 : 0; });
  }
  // Binds a flag for a number of bytes, with an optional unit KiB, MiB, GiB or TiB.
  void Bytes(FlagText text, int64_t& target, FlagRange<int64_t> range = {0});
  // Binds a flag for a duration with a unit ms, s, m or h. A number without a unit is in seconds.
  void Interval(FlagText text, Duration& target, FlagRange<Duration> range);
  // Binds a flag with another type of value. `set` checks and stores the value. An error message
  // contains the flag's name, followed by the message of `set`. `show` returns the current value as
  // text.
  void Custom(FlagText text, std::function<absl::Status(std::string_view)> set,
              std::function<std::string()> show);

  // Binds a flag for a whole number of up to 63 bits.
  template <std::integral T>
  void Integer(FlagText text, T& target, FlagRange<std::type_identity_t<T>> range = {}) {
    AddInteger(
        text, ToInt64(range), [&target](int64_t value) { target = static_cast<T>(value); },
        [&target] { return std::optional<int64_t>(static_cast<int64_t>(target)); });
  }
  template <std::integral T>
  void Integer(FlagText text, std::optional<T>& target,
               FlagRange<std::type_identity_t<T>> range = {}) {
    AddInteger(
        text, ToInt64(range), [&target](int64_t value) { target = static_cast<T>(value); },
        [&target] {
          return target ? std::optional<int64_t>(static_cast<int64_t>(*target)) : std::nullopt;
        });
  }
  // Binds a flag for a finite number.
  template <std::floating_point T>
  void Real(FlagText text, T& target, FlagRange<std::type_identity_t<T>> range = {}) {
    AddReal(
        text, {range.min, range.max}, [&target](double value) { target = static_cast<T>(value); },
        [&target] { return std::optional<double>(target); });
  }
  template <std::floating_point T>
  void Real(FlagText text, std::optional<T>& target,
            FlagRange<std::type_identity_t<T>> range = {}) {
    AddReal(
        text, {range.min, range.max}, [&target](double value) { target = static_cast<T>(value); },
        [&target] { return target ? std::optional<double>(*target) : std::nullopt; });
  }

  // Parses the arguments of a command. If an argument is `--help` or `-h`, sets help_requested()
  // and stops. Returns the arguments that are not flags, in order. Arguments after `--` are never
  // flags.
  absl::StatusOr<std::vector<std::string_view>> Parse(std::span<const std::string_view> args) {
    return Parse(args, Others::kAllowed);
  }
  // Parses the arguments of a command that accepts only flags. Returns an error if an argument is
  // not a flag.
  absl::Status ParseAll(std::span<const std::string_view> args);
  // Sets the flag `name`, for example from a configuration file. If no flag has this name, returns
  // NOT_FOUND, and the message names the most similar flag.
  absl::Status Set(std::string_view name, std::string_view value);

  bool help_requested() const { return help_requested_; }
  // Returns true if Parse or Set has set the flag `name`.
  // REQUIRES: the table has a flag `name`.
  bool IsSet(std::string_view name) const;
  bool IsSwitch(std::string_view name) const;
  // Returns the names and the current values of all flags, in the order in which the flags were
  // bound.
  std::vector<std::pair<std::string, std::string>> Values() const;
  // Returns the names and the current values of all flags that are not private.
  std::vector<std::pair<std::string, std::string>> PublicValues() const;
  // Returns the help text: all flags, in groups, wrapped at 100 columns.
  std::string Help() const;

 private:
  struct Flag {
    FlagText text;
    std::string_view group;
    bool is_switch = false;
    bool is_set = false;
    std::function<absl::Status(std::string_view)> set;
    std::function<std::string()> show;
    std::string bounds;         // allowed range as text for the help; may be empty
    std::string default_value;  // default value as text for the help; may be empty
  };

  template <std::integral T>
  static FlagRange<int64_t> ToInt64(FlagRange<T> range) {
    static_assert(sizeof(T) < sizeof(int64_t) || std::is_signed_v<T>);
    return {static_cast<int64_t>(range.min), static_cast<int64_t>(range.max)};
  }
  template <typename T>
  static size_t IndexOf(EnumNames<T> names, T value) {
    const auto found = std::ranges::find(names, value, &EnumName<T>::value);
    INCIPIT_CHECK(found != names.end());
    return static_cast<size_t>(found - names.begin());
  }
  // Adds a flag whose allowed values are `names`. `set` receives the index of the name that the
  // user passed. `get` returns the index of the current value's canonical name.
  void AddNames(FlagText text, std::vector<std::string_view> names, std::function<void(size_t)> set,
                std::function<size_t()> get);
  void AddInteger(FlagText text, FlagRange<int64_t> range, std::function<void(int64_t)> set,
                  std::function<std::optional<int64_t>()> get);
  void AddReal(FlagText text, FlagRange<double> range, std::function<void(double)> set,
               std::function<std::optional<double>()> get);
  void Add(FlagText text, std::string bounds, std::function<absl::Status(std::string_view)> set,
           std::function<std::string()> show);
  enum class Others { kAllowed, kRefused };  // handling of arguments that are not flags
  absl::StatusOr<std::vector<std::string_view>> Parse(std::span<const std::string_view> args,
                                                      Others others);
  absl::StatusOr<size_t> ParseFlag(std::span<const std::string_view> args, Others others);
  const Flag* Find(std::string_view name) const;
  Flag* Find(std::string_view name);
  absl::Status UnknownFlag(std::string_view name) const;

  std::vector<Flag> flags_;
  std::string_view group_;
  bool help_requested_ = false;
};

// Returns the candidate that is most similar to `name`, or nullopt if no candidate is similar.
std::optional<std::string_view> NearestName(std::string_view name,
                                            std::span<const std::string_view> candidates);

}  // namespace incipit
