// Parses the arguments of a command, prints the help of the command and reports wrong flags.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/flags.h"

namespace incipit {

// The text of `--help` before and after the table of flags.
struct CommandText {
  std::string_view name;
  std::string_view synopsis;     // text after `incipit NAME` in the usage line of the help
  std::string_view description;  // paragraphs of the help, including line breaks
  std::string_view examples;     // text with example commands, one command per line
};

// Parses `args` into `flags`. Returns an exit code if the command must not run: `--help` was given
// (the help is on stdout) or a flag is wrong (the message is on stderr). Returns nothing if the
// command can run.
std::optional<int> ParseArguments(const CommandText& text, Flags& flags,
                                  std::span<const std::string_view> args);

// Parses `args` of a command that needs one argument beside its flags, such as LOG. The argument
// may stand before, between or after the flags. Stores the argument in `argument`; `name` is the
// name of the argument in messages. Returns an exit code if the command must not run.
std::optional<int> ParseArguments(const CommandText& text, Flags& flags,
                                  std::span<const std::string_view> args, std::string_view name,
                                  std::string& argument);

// Prints the message of `status`, which names a wrong argument, to stderr, and returns kExitUsage.
int ReportUsage(const CommandText& text, const absl::Status& status);
// Prints `message`, the reason why the command failed, to stderr, and returns kExitFailure.
int ReportFailure(const CommandText& text, std::string_view message);

}  // namespace incipit
