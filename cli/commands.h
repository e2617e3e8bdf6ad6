// Declares the table of all commands except `serve` (cli/serve.h); cli/main.cpp selects the
// command.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

// Exit codes of the program. kExitOk: the command succeeded.
inline constexpr int kExitOk = 0;
// No server was reachable, the server returned an error, or the input was bad.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;  // a flag or the configuration file is wrong

struct Command {
  std::string_view name;
  std::string_view summary;  // description of the command in `incipit --help`, one line
  // Runs the command with `args`, the arguments after the name of the command. Prints all messages
  // and returns the exit code.
  int (*run)(std::span<const std::string_view> args);
};

// Returns the commands in the order of `incipit --help`. The result is valid until the process
// ends.
std::span<const Command> Commands();

}  // namespace incipit
