// The commands of the program other than `serve` (cli/serve.h): what cli/main.cpp dispatches to.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

// What the process returns.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // the work failed: no server, an error answered, bad input
inline constexpr int kExitUsage = 2;    // a flag or the configuration is wrong; nothing was done

struct Command {
  std::string_view name;
  std::string_view summary;  // one line for the program's help
  // `args` are those after the command's name. Returns the exit code; prints its own messages.
  int (*run)(std::span<const std::string_view> args);
};

// In the order in which the help lists them. Valid for the life of the process.
std::span<const Command> Commands();

}  // namespace incipit
