#include "server/logging.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/check.h"

namespace incipit {
namespace {

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  INCIPIT_CHECK(false);
}

// Writes a log message of the gRPC library to the server's log at level debug. The level is low,
// because gRPC logs every failed connection as an error.
void ForwardGrpcLog(gpr_log_func_args* args) { spdlog::debug("grpc: {}", args->message); }

// Writes a log message of the protobuf library to the server's log at level debug. If a client's
// message cannot be parsed, the status of the call already reports the error.
void ForwardProtobufLog(google::protobuf::LogLevel /*level*/, const char* /*file*/, int /*line*/,
                        const std::string& message) {
  spdlog::debug("protobuf: {}", message);
}

}  // namespace

void SetLogLevel(LogLevel level) { spdlog::set_level(LevelOf(level)); }

LogLevel CurrentLogLevel() {
  for (const EnumName<LogLevel>& named : kLogLevelNames) {
    if (LevelOf(named.value) == spdlog::get_level()) return named.value;
  }
  INCIPIT_CHECK(false);
}

void StartLogging(LogLevel level) {
  auto logger = spdlog::stderr_color_mt("incipit");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  SetLogLevel(level);
  gpr_set_log_function(ForwardGrpcLog);
  google::protobuf::SetLogHandler(ForwardProtobufLog);
}

}  // namespace incipit
