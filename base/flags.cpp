#include "base/flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <numeric>

#include "base/check.h"
#include "base/status.h"

namespace incipit {
namespace {

using std::string_view;

constexpr size_t kHelpColumns = 100;
constexpr size_t kHelpIndent = 6;

struct Unit {
  string_view name;
  double size;
};
constexpr std::array<Unit, 5> kByteUnits = {
    {{"TiB", 1ull << 40}, {"GiB", 1ull << 30}, {"MiB", 1ull << 20}, {"KiB", 1ull << 10}, {"", 1}}};
constexpr std::array<Unit, 5> kTimeUnits = {
    {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"", 1}}};

template <typename T>
std::optional<T> ParseWhole(string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// Parses a number that is followed by the name of a unit, such as "4KiB". Returns the number
// multiplied by the size of the unit, or nullopt for any other text.
std::optional<double> ParseWithUnit(string_view text, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.name)) continue;
    const auto number = ParseWhole<double>(text.substr(0, text.size() - unit.name.size()));
    if (number && std::isfinite(*number)) return *number * unit.size;
  }
  return std::nullopt;
}

std::string BytesText(int64_t bytes) {
  for (const Unit& unit : kByteUnits) {
    const auto size = static_cast<int64_t>(unit.size);
    if (bytes >= size && bytes % size == 0) return fmt::format("{}{}", bytes / size, unit.name);
  }
  return fmt::format("{}", bytes);
}

std::string IntervalText(double seconds) {
  if (seconds != 0 && seconds < 1) return fmt::format("{}ms", seconds * 1e3);
  return fmt::format("{}s", seconds);
}

// Returns the allowed range as text: "from A to B", "at least A" or "at most B". `widest` contains
// the limits of the number type. The text omits a minimum or maximum of `range` that is such a
// limit.
template <typename T, typename Show>
std::string BoundsText(const FlagRange<T>& range, const FlagRange<T>& widest, Show show) {
  const bool has_min = range.min > widest.min;
  const bool has_max = range.max < widest.max;
  if (has_min && has_max) return fmt::format("from {} to {}", show(range.min), show(range.max));
  if (has_min) return fmt::format("at least {}", show(range.min));
  if (has_max) return fmt::format("at most {}", show(range.max));
  return {};
}

std::optional<bool> ParseBool(string_view text) {
  if (text == "on" || text == "true") return true;
  if (text == "off" || text == "false") return false;
  return std::nullopt;
}

// Returns `value` in quotes, for an error message. If `value` has more than 80 bytes, returns only
// the first 80 bytes and "...".
std::string Quoted(string_view value) {
  constexpr size_t kShown = 80;
  if (value.size() <= kShown) return fmt::format("\"{}\"", value);
  return fmt::format("\"{}...\"", value.substr(0, kShown));
}

absl::Status WrongValue(string_view value, string_view kind, string_view bounds) {
  if (bounds.empty()) return InvalidArgument("is {}; it must be {}", Quoted(value), kind);
  return InvalidArgument("is {}; it must be {} {}", Quoted(value), kind, bounds);
}

size_t EditDistance(string_view a, string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

void AppendWrapped(std::string& out, string_view text) {
  size_t column = 0;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (column != 0 && column + 1 + word.size() > kHelpColumns) {
      out += '\n';
      column = 0;
    }
    out.append(column == 0 ? kHelpIndent : 1, ' ');
    column += (column == 0 ? kHelpIndent : 1) + word.size();
    out += word;
  }
  out += '\n';
}

}  // namespace

void Flags::Add(FlagText text, std::string bounds,
                std::function<absl::Status(std::string_view)> set,
                std::function<std::string()> show) {
  INCIPIT_CHECK(Find(text.name) == nullptr);
  Flag flag;
  flag.text = text;
  flag.group = group_;
  flag.bounds = std::move(bounds);
  flag.default_value = show();
  flag.set = std::move(set);
  flag.show = std::move(show);
  flags_.push_back(std::move(flag));
}

void Flags::String(FlagText text, std::string& target) {
  Custom(
      text,
      [&target](string_view value) {
        target = value;
        return absl::OkStatus();
      },
      [&target] { return target; });
}

void Flags::String(FlagText text, std::optional<std::string>& target) {
  Custom(
      text,
      [&target](string_view value) {
        target = value;
        return absl::OkStatus();
      },
      [&target] { return target.value_or(""); });
}

void Flags::Strings(FlagText text, std::vector<std::string>& target) {
  Custom(
      text,
      [&target, first = true](string_view value) mutable {
        if (first) target.clear();
        first = false;
        target.emplace_back(value);
        return absl::OkStatus();
      },
      [&target] { return fmt::format("{}", fmt::join(target, ",")); });
}

void Flags::Switch(FlagText text, bool& target) {
  Custom(
      text,
      [&target](string_view value) {
        const auto on = ParseBool(value);
        if (!on) return WrongValue(value, "on or off", "");
        target = *on;
        return absl::OkStatus();
      },
      [&target]() -> std::string { return target ? "on" : "off"; });
  flags_.back().is_switch = true;
}

void Flags::AddNames(FlagText text, std::vector<string_view> names, std::function<void(size_t)> set,
                     std::function<size_t()> get) {
  std::string all = fmt::format("{}", fmt::join(names, ", "));
  // The index that get() returned for the last passed name, and this name. A value may have several
  // names; get() returns the index of its first name.
  auto given = std::make_shared<std::pair<size_t, string_view>>(get(), names[get()]);
  Add(
      text, all,
      [names, all, given, set = std::move(set), get](string_view value) {
        const auto found = std::ranges::find(names, value);
        if (found == names.end()) return WrongValue(value, "one of", all);
        set(static_cast<size_t>(found - names.begin()));
        *given = {get(), *found};
        return absl::OkStatus();
      },
      [names, given, get] {
        const size_t index = get();
        return std::string(index == given->first ? given->second : names[index]);
      });
}

void Flags::Bytes(FlagText text, int64_t& target, FlagRange<int64_t> range) {
  std::string bounds = BoundsText(range, {}, BytesText);
  Add(
      text, bounds,
      [&target, range, bounds](string_view value) {
        const auto bytes = ParseWithUnit(value, kByteUnits);
        // Check the size before the conversion to int64_t, because 2^63 and larger numbers do not
        // fit into int64_t.
        if (!bytes || *bytes != std::floor(*bytes) || std::abs(*bytes) >= 0x1p63 ||
            static_cast<int64_t>(*bytes) < range.min || static_cast<int64_t>(*bytes) > range.max) {
          return WrongValue(value, "a size in bytes, KiB, MiB, GiB or TiB", bounds);
        }
        target = static_cast<int64_t>(*bytes);
        return absl::OkStatus();
      },
      [&target] { return BytesText(target); });
}

void Flags::Interval(FlagText text, Duration& target, FlagRange<Duration> range) {
  const auto show = [](Duration duration) { return IntervalText(ToSeconds(duration)); };
  std::string bounds = BoundsText(range, {Duration::min(), Duration::max()}, show);
  Add(
      text, bounds,
      [&target, range, bounds](string_view value) {
        const auto seconds = ParseWithUnit(value, kTimeUnits);
        if (!seconds || *seconds < ToSeconds(range.min) || *seconds > ToSeconds(range.max)) {
          return WrongValue(value, "a time (examples: 500ms, 30s, 5m)", bounds);
        }
        target = FromSeconds(*seconds);
        return absl::OkStatus();
      },
      [&target, show] { return show(target); });
}

void Flags::Custom(FlagText text, std::function<absl::Status(std::string_view)> set,
                   std::function<std::string()> show) {
  Add(text, "", std::move(set), std::move(show));
}

void Flags::AddInteger(FlagText text, FlagRange<int64_t> range, std::function<void(int64_t)> set,
                       std::function<std::optional<int64_t>()> get) {
  std::string bounds = BoundsText(range, {}, [](int64_t value) { return fmt::to_string(value); });
  Add(
      text, bounds,
      [range, bounds, set = std::move(set)](string_view value) {
        const auto number = ParseWhole<int64_t>(value);
        if (!number || *number < range.min || *number > range.max) {
          return WrongValue(value, "a whole number", bounds);
        }
        set(*number);
        return absl::OkStatus();
      },
      [get = std::move(get)] {
        const auto value = get();
        return value ? fmt::to_string(*value) : std::string();
      });
}

void Flags::AddReal(FlagText text, FlagRange<double> range, std::function<void(double)> set,
                    std::function<std::optional<double>()> get) {
  // A flag without limits has the range from -kUnbounded to kUnbounded. The help text does not
  // mention these two limits.
  constexpr double kUnbounded = std::numeric_limits<float>::max();
  std::string bounds = BoundsText(range, {-kUnbounded, kUnbounded},
                                  [](double value) { return fmt::format("{:g}", value); });
  Add(
      text, bounds,
      [range, bounds, set = std::move(set)](string_view value) {
        const auto number = ParseWhole<double>(value);
        if (!number || !(*number >= range.min && *number <= range.max)) {
          return WrongValue(value, "a number", bounds);
        }
        set(*number);
        return absl::OkStatus();
      },
      [get = std::move(get)] {
        const auto value = get();
        return value ? fmt::format("{:g}", *value) : std::string();
      });
}

absl::StatusOr<std::vector<string_view>> Flags::Parse(std::span<const string_view> args,
                                                      Others allowance) {
  std::vector<string_view> others;
  while (!args.empty() && !help_requested_) {
    if (args[0] == "--") {
      others.insert(others.end(), args.begin() + 1, args.end());
      break;
    }
    if (args[0] == "-h" || args[0] == "--help") {
      help_requested_ = true;
    } else if (!args[0].starts_with("--")) {
      others.push_back(args[0]);
      args = args.subspan(1);
    } else {
      INCIPIT_ASSIGN_OR_RETURN(const size_t num_used, ParseFlag(args, allowance));
      args = args.subspan(num_used);
    }
  }
  return others;
}

absl::Status Flags::ParseAll(std::span<const string_view> args) {
  INCIPIT_ASSIGN_OR_RETURN(const auto others, Parse(args, Others::kRefused));
  if (others.empty()) return absl::OkStatus();
  return InvalidArgument(
      "unexpected argument {}; the command accepts only options that begin with --",
      Quoted(others[0]));
}

// Parses the flag args[0]. Also parses args[1] if args[1] is the value of this flag. Returns the
// number of parsed arguments, 1 or 2.
absl::StatusOr<size_t> Flags::ParseFlag(std::span<const string_view> args, Others others) {
  const size_t equals = args[0].find('=');
  const string_view name = args[0].substr(2, equals == string_view::npos ? equals : equals - 2);
  const Flag* const flag = Find(name);
  if (flag == nullptr) return UnknownFlag(name);
  if (equals != string_view::npos) {
    INCIPIT_RETURN_IF_ERROR(Set(name, args[0].substr(equals + 1)));
    return 1;
  }
  const bool has_next = args.size() > 1;
  if (flag->is_switch) {
    // The next argument is the value of the flag if the argument is "on", "true", "off" or "false".
    // In a command that accepts only flags, any next argument that does not begin with `-` is also
    // the value.
    const bool takes_next = has_next && (ParseBool(args[1]).has_value() ||
                                         (others == Others::kRefused && !args[1].starts_with('-')));
    INCIPIT_RETURN_IF_ERROR(Set(name, takes_next ? args[1] : "on"));
    return takes_next ? 2 : 1;
  }
  if (!has_next)
    return InvalidArgument("--{} needs a value: --{} {}", name, name, flag->text.value);
  if (args[1].starts_with("--") && Find(args[1].substr(2)) != nullptr) {
    return InvalidArgument(
        "--{} needs a value: --{} {}; the next argument, {}, is a flag; if this argument is the "
        "value, write --{}={}",
        name, name, flag->text.value, args[1], name, args[1]);
  }
  INCIPIT_RETURN_IF_ERROR(Set(name, args[1]));
  return 2;
}

absl::Status Flags::Set(string_view name, string_view value) {
  Flag* const flag = Find(name);
  if (flag == nullptr) {
    return absl::Status(absl::StatusCode::kNotFound, UnknownFlag(name).message());
  }
  if (absl::Status status = flag->set(value); !status.ok()) {
    return InvalidArgument("--{} {}", name, MessageOf(status));
  }
  flag->is_set = true;
  return absl::OkStatus();
}

const Flags::Flag* Flags::Find(string_view name) const {
  const auto found = std::find_if(flags_.begin(), flags_.end(),
                                  [&](const Flag& flag) { return flag.text.name == name; });
  return found == flags_.end() ? nullptr : std::to_address(found);
}

Flags::Flag* Flags::Find(string_view name) {
  return const_cast<Flag*>(std::as_const(*this).Find(name));
}

absl::Status Flags::UnknownFlag(string_view name) const {
  std::vector<string_view> names = {"help"};
  for (const Flag& flag : flags_) names.push_back(flag.text.name);
  const auto nearest = NearestName(name, names);
  if (!nearest) return InvalidArgument("unknown flag --{}; --help lists all flags", name);
  return InvalidArgument("unknown flag --{}; did you mean --{}?", name, *nearest);
}

bool Flags::IsSet(string_view name) const {
  const Flag* const flag = Find(name);
  INCIPIT_CHECK(flag != nullptr);
  return flag->is_set;
}

bool Flags::IsSwitch(string_view name) const {
  const Flag* const flag = Find(name);
  INCIPIT_CHECK(flag != nullptr);
  return flag->is_switch;
}

std::vector<std::pair<std::string, std::string>> Flags::Values() const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Flag& flag : flags_) values.emplace_back(flag.text.name, flag.show());
  return values;
}

std::vector<std::pair<std::string, std::string>> Flags::PublicValues() const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Flag& flag : flags_) {
    if (!flag.text.is_private) values.emplace_back(flag.text.name, flag.show());
  }
  return values;
}

std::string Flags::Help() const {
  std::string out;
  const Flag* previous = nullptr;
  for (const Flag& flag : flags_) {
    if (previous == nullptr || flag.group != previous->group) {
      out += fmt::format("{}{}:\n", previous == nullptr ? "" : "\n",
                         flag.group.empty() ? "Options" : flag.group);
    }
    previous = &flag;
    out += flag.is_switch ? fmt::format("  --{}\n", flag.text.name)
                          : fmt::format("  --{} {}\n", flag.text.name, flag.text.value);
    std::string text(flag.text.help);
    if (!flag.bounds.empty()) text += fmt::format(" Takes {}.", flag.bounds);
    if (!flag.default_value.empty() && !(flag.is_switch && flag.default_value == "off")) {
      text += fmt::format(" Default: {}.", flag.default_value);
    }
    AppendWrapped(out, text);
  }
  return out;
}

std::optional<string_view> NearestName(string_view name, std::span<const string_view> candidates) {
  std::optional<string_view> nearest;
  size_t distance_min = std::max<size_t>(2, name.size() / 3) + 1;
  for (const string_view candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < distance_min && distance < candidate.size()) {
      distance_min = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace incipit
