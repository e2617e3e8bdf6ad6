// The process's log: lines to stderr. What clients send is never in it, except labels that were
// checked to be printable.
#pragma once

#include <string>
#include <string_view>

namespace incipit {

// REQUIRES: one of trace, debug, info, warn, error, off.
void SetLogLevel(std::string_view level);
std::string LogLevel();

// Once, before the first thread: the format, and gRPC's own messages among ours.
void StartLogging(std::string_view level);

}  // namespace incipit
