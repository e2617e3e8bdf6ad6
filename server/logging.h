// The process's log: lines to stderr. What clients send is never in it, except labels that were
// checked to be printable.
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

// Once, before the first thread: the format, and gRPC's own messages among ours.
void StartLogging(LogLevel level);

}  // namespace incipit
