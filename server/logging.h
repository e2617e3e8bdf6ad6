// The log of the server, which is written to stderr. From clients, the log contains only request
// ids, which consist of printable characters.
#pragma once

#include <cstdint>

#include "base/enum_names.h"

namespace incipit {

enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };

inline constexpr EnumName<LogLevel> kLogLevelNames[] = {
    {LogLevel::kTrace, "trace"}, {LogLevel::kDebug, "debug"}, {LogLevel::kInfo, "info"},
    {LogLevel::kWarn, "warn"},   {LogLevel::kError, "error"}, {LogLevel::kOff, "off"}};

void SetLogLevel(LogLevel level);
LogLevel CurrentLogLevel();

// Sets the format and the level of the log, and forwards the log messages of gRPC and protobuf to
// this log. Must be called once, before the first thread starts.
void StartLogging(LogLevel level);

}  // namespace incipit
