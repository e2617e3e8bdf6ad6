// `incipit serve`: from a command line to a running server and back.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

// What the process returns, beside kExitOk, kExitFailure (the engine failed while serving) and
// kExitUsage of cli/commands.h.
inline constexpr int kExitModel = 3;    // the model folder cannot be served
inline constexpr int kExitAddress = 4;  // an address cannot be bound, or the port file written
inline constexpr int kExitDevice = 5;   // the device is not there or has too little memory

// Serves until SIGTERM or SIGINT, drains, and returns. What goes wrong before it serves is one line
// on stderr. REQUIRES: no other thread yet.
int RunServe(std::span<const std::string_view> args);

}  // namespace incipit
