// Declares the command `incipit serve`, which runs the server.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

// Exit codes of `incipit serve`, in addition to those in cli/commands.h.
inline constexpr int kExitModel = 3;  // exit code: the model folder cannot be loaded
// Exit code: an address cannot be bound, or the port file cannot be written.
inline constexpr int kExitAddress = 4;
inline constexpr int kExitDevice = 5;  // exit code: the device is missing or has too little memory

// Runs the server until a stop signal such as SIGTERM arrives, waits for the calls in progress, and
// ends the process. If the server cannot start, prints one line to stderr and returns an exit code.
// REQUIRES: the process has no other thread.
int RunServe(std::span<const std::string_view> args);

}  // namespace incipit
