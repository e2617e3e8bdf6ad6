// What every command does with its arguments before it works: help, and messages about wrong flags.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/flags.h"

namespace incipit {

// What `--help` says around the table of flags.
struct CommandText {
  std::string_view name;
  std::string_view synopsis;     // what follows `incipit NAME`
  std::string_view description;  // paragraphs, wrapped by hand
  std::string_view examples;     // lines
};

// Takes the arguments. Has a value, the exit code, if the command ends here: help was asked for (on
// stdout) or a flag is wrong (on stderr).
std::optional<int> ParseArguments(const CommandText& text, Flags& flags,
                                  std::span<const std::string_view> args);

// The same for a command that takes one argument beside its flags, such as LOG, before, among or
// behind them. It is needed.
std::optional<int> ParseArguments(const CommandText& text, Flags& flags,
                                  std::span<const std::string_view> args, std::string_view name,
                                  std::string& argument);

// Says on stderr what is wrong with the arguments; returns kExitUsage.
int ReportUsage(const CommandText& text, const absl::Status& status);
// Says on stderr why the work failed; returns kExitFailure.
int ReportFailure(const CommandText& text, std::string_view message);

}  // namespace incipit
