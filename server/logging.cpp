#include "server/logging.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/check.h"

namespace incipit {
namespace {

// gRPC reports what it could not do for one connection as errors of its own; the status of the
// call, or of the start, says what matters to an operator.
void ForwardGrpcLog(gpr_log_func_args* args) { spdlog::debug("grpc: {}", args->message); }

// What it says about a message that cannot be parsed is in the call's status.
void ForwardProtobufLog(google::protobuf::LogLevel /*level*/, const char* /*file*/, int /*line*/,
                        const std::string& message) {
  spdlog::debug("protobuf: {}", message);
}

}  // namespace

void SetLogLevel(std::string_view level) {
  // spdlog's own names; an unknown one would silently become off.
  const auto parsed = level == "warn"    ? spdlog::level::warn
                      : level == "error" ? spdlog::level::err
                                         : spdlog::level::from_str(std::string(level));
  INCIPIT_CHECK(parsed != spdlog::level::off || level == "off");
  spdlog::set_level(parsed);
}

std::string LogLevel() {
  switch (spdlog::get_level()) {
    case spdlog::level::warn:
      return "warn";
    case spdlog::level::err:
      return "error";
    default: {
      const auto name = spdlog::level::to_string_view(spdlog::get_level());
      return std::string(name.data(), name.size());
    }
  }
}

void StartLogging(std::string_view level) {
  auto logger = spdlog::stderr_color_mt("incipit");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  SetLogLevel(level);
  gpr_set_log_function(ForwardGrpcLog);
  google::protobuf::SetLogHandler(ForwardProtobufLog);
}

}  // namespace incipit
