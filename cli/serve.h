// Declares the command `incipit serve`, which runs the server.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

inline constexpr int kExitModel = 3;  // exit code: the model folder cannot be loaded
// Exit code: an address cannot be bound, or the port file cannot be written.
inline constexpr int kExitAddress = 4;
inline constexpr int kExitDevice = 5;  // exit code: the device is missing or has too little memory

// Runs the server until a stop signal such as SIGTERM arrives and the calls in progress have ended,
// and then ends the process. If the server cannot start, returns an exit code. REQUIRES: the
// process has no other thread.
int RunServe(std::span<const std::string_view> args);

}  // namespace incipit
