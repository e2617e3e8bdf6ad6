// Declares a table of command-line flags. Each flag has a name, a help text, and a variable that
// receives the checked value. All commands of the program use this table, so their help texts and
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

// A range of allowed values. The limits `min` and `max` are allowed too.
template <typename T>
struct FlagRange {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};

// The name and the help text of a flag. The help shows `--name VALUE`, followed by `help`. `name`
// does not begin with dashes.
struct FlagText {
  std::string_view name;
  // Word for the value of the flag in the help, such as HOST:PORT. Empty for a flag without a
  // value.
  std::string_view value;
  // Description of the flag in full sentences. The allowed range and the default value are added
  // automatically.
  std::string_view help;
  // True if the value is a path or a secret. PublicValues() omits private flags.
  bool is_private = false;
};

// A table of command-line flags. Each flag sets a variable. The initial value of the variable is
// the default of the flag. REQUIRES: the variables outlive the table, and all names and texts are
// string literals.
//
// The parser accepts `--flag value` and `--flag=value`. If a flag is repeated, the last value is
// used. All errors of the parser are INVALID_ARGUMENT. An error message contains the flag, the
// value and the allowed range.
class Flags {
 public:
  // Begins a group of flags with the heading `title`. The group contains all flags that are added
  // before the next call of Group.
  void Group(std::string_view title) { group_ = title; }

  void String(FlagText text, std::string& target);
  void String(FlagText text, std::optional<std::string>& target);
  // Adds a flag that the user may repeat. The first value replaces the default values in `target`.
  // The second and all later values are appended to `target`.
  void Strings(FlagText text, std::vector<std::string>& target);
  // Adds a flag that is on or off. `--flag` alone means on. The values on, true, off and false are
  // accepted too.
  void Switch(FlagText text, bool& target);
  // Adds a flag whose value is one of the names in `names`. If a value has several names, Values()
  // returns the name that the user passed. REQUIRES: `names` outlives the table.
  template <typename T>
  requires std::is_enum_v<T>
  void Enum(FlagText text, T& target, std::type_identity_t<EnumNames<T>> names) {
    std::vector<std::string_view> all;
    for (const EnumName<T>& one : names) all.push_back(one.name);
    AddNames(
        text, std::move(all), [&target, names](size_t index) { target = names[index].value; },
        [&target, names] { return IndexOf(names, target); });
  }
  // Adds a flag whose value is one of the names in `names`, or the string `absent`, such as "auto".
  // If the user passes `absent`, `target` becomes nullopt.
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
  // Adds a flag whose value is a number of bytes. The user may append a unit: KiB, MiB, GiB or TiB.
  void Bytes(FlagText text, int64_t& target, FlagRange<int64_t> range = {0});
  // Adds a flag whose value is a duration. The user may append a unit: ms, s, m or h. A duration
  // without a unit is in seconds.
  void Interval(FlagText text, Duration& target, FlagRange<Duration> range);
  // Adds a flag with a value of any type. `set` checks and stores the value. If `set` returns an
  // error, the error message begins with the name of the flag. `show` returns the current value as
  // text.
  void Custom(FlagText text, std::function<absl::Status(std::string_view)> set,
              std::function<std::string()> show);

  // Adds a flag whose value is an integer.
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
  // Adds a flag whose value is a finite floating-point number.
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

  // Parses the arguments of a command. Returns the arguments that are not flags, in the order of
  // `args`. Arguments after `--` are never flags. If an argument is `--help` or `-h`, sets
  // help_requested() and stops.
  absl::StatusOr<std::vector<std::string_view>> Parse(std::span<const std::string_view> args) {
    return Parse(args, Others::kAllowed);
  }
  // Parses the arguments of a command that accepts only flags. Returns an error if an argument is
  // not a flag.
  absl::Status ParseAll(std::span<const std::string_view> args);
  // Sets the flag `name` to `value`, for example from a configuration file. If no flag has this
  // name, returns NOT_FOUND with a message that names the most similar flag.
  absl::Status Set(std::string_view name, std::string_view value);

  bool help_requested() const { return help_requested_; }
  // Returns true if Parse or Set has set the flag `name`.
  // REQUIRES: the table has a flag `name`.
  bool IsSet(std::string_view name) const;
  bool IsSwitch(std::string_view name) const;
  // Returns the name and the current value of each flag, in the order in which the flags were
  // added.
  std::vector<std::pair<std::string, std::string>> Values() const;
  // Returns the name and the current value of each flag that is not private (FlagText::is_private).
  std::vector<std::pair<std::string, std::string>> PublicValues() const;
  // Returns the help text, which describes all flags by group. Long lines are wrapped at 100
  // columns.
  std::string Help() const;

 private:
  struct Flag {
    FlagText text;
    std::string_view group;
    bool is_switch = false;
    bool is_set = false;
    std::function<absl::Status(std::string_view)> set;
    std::function<std::string()> show;
    // Allowed values as text, such as "at least 1". Empty: the help shows no allowed values.
    std::string bounds;
    // Default value as text for the help. Empty if the help shows no default.
    std::string default_value;
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
  // Adds a flag whose value is one of `names`. If the user passes names[i], the parser calls
  // set(i). `get` returns the current value as an index in `names`. If the value has several names,
  // `get` returns the index of the first name.
  void AddNames(FlagText text, std::vector<std::string_view> names, std::function<void(size_t)> set,
                std::function<size_t()> get);
  void AddInteger(FlagText text, FlagRange<int64_t> range, std::function<void(int64_t)> set,
                  std::function<std::optional<int64_t>()> get);
  void AddReal(FlagText text, FlagRange<double> range, std::function<void(double)> set,
               std::function<std::optional<double>()> get);
  void Add(FlagText text, std::string bounds, std::function<absl::Status(std::string_view)> set,
           std::function<std::string()> show);
  // Arguments that are not flags are either allowed (kAllowed) or an error (kRefused).
  enum class Others { kAllowed, kRefused };
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

// Returns the candidate that is most similar to `name`. Returns nullopt if no candidate is similar
// enough.
std::optional<std::string_view> NearestName(std::string_view name,
                                            std::span<const std::string_view> candidates);

}  // namespace incipit
