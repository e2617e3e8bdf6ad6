// Declares the table of the commands of the program `incipit`, except the command `serve`.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

// Exit code of the program if the command succeeded.
inline constexpr int kExitOk = 0;
// Exit code if no server was reachable, the server returned an error, or the input was wrong.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;  // exit code if a flag or the configuration file is wrong

struct Command {
  std::string_view name;
  std::string_view summary;  // one-line description of the command in `incipit --help`
  // Runs the command and returns the exit code. `args` are the arguments after the name of the
  // command. Prints the output and the error messages of the command.
  int (*run)(std::span<const std::string_view> args);
};

// Returns the commands in the order of `incipit --help`. The result is valid until the process
// ends.
std::span<const Command> Commands();

}  // namespace incipit
