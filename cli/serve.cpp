#include "cli/serve.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/scheduling.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/file_fault.h"
#include "cli/serve_defaults.h"
#include "cli/serve_load.h"
#include "cli/stop_signals.h"
#include "server/logging.h"
#include "server/net/address.h"
#include "server/options.h"
#include "server/server.h"
#include "server/session/api_keys.h"

namespace incipit {
namespace {

// Maximum time from the end of draining to the end of the process. While draining, the server waits
// for the calls of clients in progress.
constexpr Duration kStopLongest = std::chrono::seconds(40);

absl::Status CheckAddresses(const Options& options) {
  INCIPIT_RETURN_IF_ERROR(CheckAddressFree("address", options.address));
  INCIPIT_RETURN_IF_ERROR(CheckAddressFree("metrics-address", options.metrics_address));
  if (options.http_address.is_on && options.http_address.is_required) {
    INCIPIT_RETURN_IF_ERROR(CheckAddressFree("http-address", options.http_address.address));
  }
  if (!options.admin_address) return absl::OkStatus();
  return CheckAddressFree("admin-address", *options.admin_address);
}

absl::StatusOr<ApiKeys> ReadKeys(const Options& options) {
  if (options.api_key_file.empty()) return ApiKeys();
  absl::StatusOr<ApiKeys> keys = ApiKeys::Read(options.api_key_file);
  if (!keys.ok()) return Annotate(keys.status(), "--api-key-file");
  return keys;
}

// Raises the limit of open files of this process to the allowed maximum, because each connection
// needs a file descriptor.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    spdlog::warn("the limit on the number of files that this process may open cannot be raised");
}

// Writes the port numbers of the server to the file that --port-file names. Writes a temporary file
// first and then renames this file, so that other programs never read an incomplete file.
absl::Status WritePortFile(const Options& options, const Server& server) {
  std::string text =
      fmt::format(R"({{"grpc": {}, "metrics": {})", server.grpc_port(), server.metrics_port());
  if (const auto port = server.http_port()) text += fmt::format(R"(, "http": {})", *port);
  if (options.admin_address) text += fmt::format(R"(, "admin": {})", server.admin_port());
  const std::string part = options.port_file + ".part";
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << text << "}\n";
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(part, options.port_file, error);
  if (!file || error) return Unavailable("--port-file {} cannot be written", options.port_file);
  return absl::OkStatus();
}

// Writes `text` to `out` and flushes `out`. Returns false if writing fails. (fmt::print would throw
// an exception.)
bool Say(std::FILE* out, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0;
}

std::string WithPort(const HostPort& address, int32_t port) {
  return ToString({address.host, static_cast<uint16_t>(port)});
}

void SayReady(const Options& options, const Server& server) {
  std::string line = fmt::format("serving gRPC on {}, metrics on http://{}/metrics",
                                 WithPort(options.address, server.grpc_port()),
                                 WithPort(options.metrics_address, server.metrics_port()));
  if (const auto port = server.http_port()) {
    line += fmt::format(", OpenAI's API on http://{}/v1",
                        WithPort(options.http_address.address, *port));
  }
  if (options.admin_address) {
    line += fmt::format(", Admin on {}", WithPort(*options.admin_address, server.admin_port()));
  }
  // Ignore a write error: the server can run even if nothing reads its stdout.
  Say(stdout, line + "\n");
}

// Waits until the engine fails or a stop signal arrives. After a stop signal, waits for the calls
// of clients in progress, but not longer than the drain timeout. Returns the exit code of the
// process.
int ServeUntilStopped(const Options& options, Server& server, StopSignals& signals,
                      const std::atomic<bool>& has_failed) {
  while (signals.Wait(std::nullopt) != StopSignals::Event::kSignal) {
    if (has_failed) return kExitFailure;
  }
  spdlog::info(
      "draining: waiting at most {} s for the calls in progress; a second stop signal ends the "
      "server immediately",
      ToSeconds(options.drain_timeout));
  const Time deadline = std::chrono::steady_clock::now() + options.drain_timeout;
  server.BeginDrain();
  server.WhenIdle([&signals] { signals.Wake(); });
  const StopSignals::Event event = signals.Wait(deadline);
  if (has_failed) return kExitFailure;
  if (event != StopSignals::Event::kWake)
    spdlog::warn("stopping the server; calls in progress are aborted");
  return kExitOk;
}

int Report(const absl::Status& status, int exit_code) {
  Say(stderr, fmt::format("incipit serve: {}\n", MessageOf(status)));
  return exit_code;
}

}  // namespace

int RunServe(std::span<const std::string_view> args) {
  Options options;
  Flags flags;
  if (absl::Status status = ParseOptions(args, options, flags); !status.ok()) {
    return Report(status, kExitUsage);
  }
  if (flags.help_requested()) {
    return Say(stdout, ServeHelp(flags)) ? kExitOk : kExitFailure;
  }
  absl::StatusOr<ApiKeys> keys = ReadKeys(options);
  if (!keys.ok()) return Report(keys.status(), kExitUsage);
  std::signal(SIGPIPE, SIG_IGN);  // a write to a closed stderr must not end the server
  StartLogging(options.log_level);
  RaiseFileLimit();
  ExitOnFileFault(options.model, kExitModel);
  StopSignals signals;
  if (absl::Status status = CheckAddresses(options); !status.ok()) {
    return Report(status, kExitAddress);
  }
  std::error_code ignored;
  if (!options.port_file.empty()) std::filesystem::remove(options.port_file, ignored);

  Loaded loaded;
  if (absl::Status status = LoadApart(options, loaded); !status.ok()) {
    return Report(status, ExitCodeOf(status));
  }
  loaded.parts.keys = *std::move(keys);
  // Set the scheduling policy of this thread, and of all threads started later, to SCHED_BATCH. A
  // thread that sends tokens then does not interrupt a thread that computes a step.
  if (IsCpu(*loaded.backend)) NeverInterruptOthers();
  std::atomic<bool> has_failed = false;
  ServerHooks hooks;
  hooks.on_fatal = [&](const absl::Status&) {
    has_failed = true;
    signals.Wake();
  };
  // End the process without waiting for the engine thread. The engine thread may wait forever for a
  // device that hangs.
  hooks.on_stuck = [] { _exit(kExitFailure); };
  // Keep gRPC initialised until the process ends: the last call of grpc_shutdown() in gRPC 1.51 may
  // wait 10 seconds for a gRPC thread.
  grpc_init();
  auto server = Server::Start(options, std::move(loaded.parts), std::move(hooks));
  if (!server.ok()) return Report(server.status(), kExitAddress);
  if (!options.port_file.empty()) {
    if (absl::Status status = WritePortFile(options, **server); !status.ok()) {
      return Report(status, kExitAddress);
    }
  }
  SayReady(options, **server);
  const int exit_code = ServeUntilStopped(options, **server, signals, has_failed);
  ExitOnSignalOrAfter(signals, kStopLongest + options.tier_drain_timeout, exit_code);
  server->reset();
  spdlog::info("stopped");
  std::fflush(nullptr);
  // End the process without running destructors, because freeing the memory would only take time.
  // All output has been flushed.
  _exit(exit_code);
}

}  // namespace incipit
