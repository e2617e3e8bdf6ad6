// Command-line flags as a table: a name, what it means and a checked place to put it. Without it
// every command would have its own parser, its own help and its own messages.
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

// Both ends belong to it.
template <typename T>
struct FlagRange {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};

// How a flag reads: `--name VALUE  help`. Without dashes.
struct FlagText {
  std::string_view name;
  std::string_view value;   // such as HOST:PORT; empty for a switch
  std::string_view help;    // one or more sentences; range and default are added
  bool is_private = false;  // a path or a secret: PublicValues() leaves it out
};

// A table of flags bound to variables, which outlive it. A variable's value when it is bound is the
// default. Names and texts are views of literals. Accepts `--flag value` and `--flag=value`; a
// switch also stands alone. Of a flag given twice the last one counts. Every error is
// INVALID_ARGUMENT and names the flag, the value and the bound.
class Flags {
 public:
  // The flags bound from here on stand under `title` in the help.
  void Group(std::string_view title) { group_ = title; }

  void String(FlagText text, std::string& target);
  void String(FlagText text, std::optional<std::string>& target);
  // Each occurrence appends; the first one replaces the default.
  void Strings(FlagText text, std::vector<std::string>& target);
  // `--flag`, `--flag=on|off|true|false`, `--flag on|off|true|false`.
  void Switch(FlagText text, bool& target);
  // Binds the value that one of `names` stands for. `names` outlives the table. An alias is shown
  // as it was given.
  template <typename T>
  requires std::is_enum_v<T>
  void Enum(FlagText text, T& target, std::type_identity_t<EnumNames<T>> names) {
    std::vector<std::string_view> all;
    for (const EnumName<T>& one : names) all.push_back(one.name);
    AddNames(
        text, std::move(all), [&target, names](size_t index) { target = names[index].value; },
        [&target, names] { return IndexOf(names, target); });
  }
  // The same for a value that may be absent: `absent` is the name of that, and stands first.
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
  // A number of bytes, with or without KiB, MiB, GiB or TiB.
  void Bytes(FlagText text, int64_t& target, FlagRange<int64_t> range = {0});
  // A time with its unit: ms, s, m or h; a bare number is in seconds.
  void Interval(FlagText text, Duration& target, FlagRange<Duration> range);
  // Whatever else: `set` checks and takes the value (its message is put behind the flag's name),
  // `show` gives it back as text.
  void Custom(FlagText text, std::function<absl::Status(std::string_view)> set,
              std::function<std::string()> show);

  // Whole numbers up to 63 bits.
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
  // Finite numbers.
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

  // Takes a command's arguments. `--help` and `-h` set help_requested() and end the parsing.
  // Returns what is not a flag, in order; after `--` nothing is.
  absl::StatusOr<std::vector<std::string_view>> Parse(std::span<const std::string_view> args) {
    return Parse(args, Others::kAllowed);
  }
  // The same, where nothing but flags is allowed.
  absl::Status ParseAll(std::span<const std::string_view> args);
  // One flag, for a configuration file. NOT_FOUND for an unknown name, with the nearest one.
  absl::Status Set(std::string_view name, std::string_view value);

  bool help_requested() const { return help_requested_; }
  bool IsSet(std::string_view name) const;  // by Parse or Set; REQUIRES: a flag's name
  bool IsSwitch(std::string_view name) const;
  // Every flag with its present value as text, in the order they were bound.
  std::vector<std::pair<std::string, std::string>> Values() const;
  // The same, without the private flags.
  std::vector<std::pair<std::string, std::string>> PublicValues() const;
  // All flags by group, wrapped at 100 columns.
  std::string Help() const;

 private:
  struct Flag {
    FlagText text;
    std::string_view group;
    bool is_switch = false;
    bool is_set = false;
    std::function<absl::Status(std::string_view)> set;
    std::function<std::string()> show;
    std::string bounds;         // for the help; may be empty
    std::string default_value;  // for the help; may be empty
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
  // `set` takes the index of a name; `get` returns that of the value's own name.
  void AddNames(FlagText text, std::vector<std::string_view> names, std::function<void(size_t)> set,
                std::function<size_t()> get);
  void AddInteger(FlagText text, FlagRange<int64_t> range, std::function<void(int64_t)> set,
                  std::function<std::optional<int64_t>()> get);
  void AddReal(FlagText text, FlagRange<double> range, std::function<void(double)> set,
               std::function<std::optional<double>()> get);
  void Add(FlagText text, std::string bounds, std::function<absl::Status(std::string_view)> set,
           std::function<std::string()> show);
  enum class Others { kAllowed, kRefused };  // arguments that are no flags
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

// The one of `candidates` that `name` is most likely a misspelling of, if any is close.
std::optional<std::string_view> NearestName(std::string_view name,
                                            std::span<const std::string_view> candidates);

}  // namespace incipit
