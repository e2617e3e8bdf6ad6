// Parses the arguments of a command, prints the help of the command and reports wrong flags.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/flags.h"
#include "cli/commands.h"

namespace incipit {

// The text of `--help` before and after the table of flags.
struct CommandText {
  std::string_view name;
  std::string_view synopsis;     // arguments in the usage line of the help, such as "LOG [flags]"
  std::string_view description;  // explanation of the command, with line breaks
  std::string_view examples;     // example commands, one per line
};

// Parses `args` into `flags`. Returns nullopt if the command can run. After `--help` or an error,
// prints the help or the error message and returns the exit code of the program.
std::optional<int> ParseArguments(const CommandText& text, Flags& flags,
                                  std::span<const std::string_view> args);

// Returns one line with name and summary for each of `commands`, for a help text.
std::string CommandLines(std::span<const Command> commands);
// Returns the command `name`, or an error that names the command with the most similar name. If no
// name is similar, the error ends with `otherwise`.
absl::StatusOr<Command> FindCommand(std::span<const Command> commands, std::string_view name,
                                    std::string_view otherwise);

// An argument that is not a flag, such as LOG.
struct Argument {
  std::string_view name;  // name of the argument in error messages
  std::string& value;
};

// Parses `args` of a command that needs all of `arguments`, in this order, in addition to its
// flags. Returns the exit code if the command must not run.
std::optional<int> ParseArguments(const CommandText& text, Flags& flags,
                                  std::span<const std::string_view> args,
                                  std::initializer_list<Argument> arguments);

// Parses `args` of a command that needs one argument in addition to its flags, such as LOG. Stores
// this argument in `argument`. `name` is the name of the argument in error messages. Returns the
// exit code if the command must not run.
std::optional<int> ParseArguments(const CommandText& text, Flags& flags,
                                  std::span<const std::string_view> args, std::string_view name,
                                  std::string& argument);

// Prints the message of `status` to stderr and returns kExitUsage. The message says which argument
// is wrong.
int ReportUsage(const CommandText& text, const absl::Status& status);
// Prints the error message `message` to stderr and returns kExitFailure.
int ReportFailure(const CommandText& text, std::string_view message);

}  // namespace incipit
