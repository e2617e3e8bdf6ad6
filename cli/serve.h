// Declares the command `incipit serve`, which runs the server.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

// Exit codes of `incipit serve`. Further exit codes are kExitOk, kExitUsage and kExitFailure (the
// engine failed while serving), defined in cli/commands.h.
inline constexpr int kExitModel = 3;    // the model folder cannot be served
inline constexpr int kExitAddress = 4;  // cannot bind an address or write the port file
inline constexpr int kExitDevice = 5;   // the device is missing or has too little memory

// Serves until a stop signal such as SIGTERM, drains the server, and ends the process. If the start
// fails, prints one line to stderr and returns an exit code. REQUIRES: the process has no other
// thread.
int RunServe(std::span<const std::string_view> args);

}  // namespace incipit
