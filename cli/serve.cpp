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
#include <vector>

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
#include "server/prewarm/prewarm_file.h"
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

absl::StatusOr<std::vector<PrewarmPrompt>> ReadPrewarm(const Options& options) {
  if (options.prewarm.empty()) return std::vector<PrewarmPrompt>();
  auto prompts = ReadPrewarmFile(options.prewarm, options.request);
  if (!prompts.ok()) return Annotate(prompts.status(), "--prewarm");
  return prompts;
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

int Report(const absl::Status& status, int exit_code) {
  Say(stderr, fmt::format("incipit serve: {}\n", MessageOf(status)));
  return exit_code;
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

// Events of a running server, which other threads set.
struct ServerState {
  std::atomic<bool> has_failed = false, is_ready = false;
  std::atomic<bool> is_idle = false;  // after the begin of draining: no call is in progress
};

enum class StartResult : uint8_t { kReady, kFailed, kStopSignal };

// Waits until the server is ready, the engine fails or a stop signal arrives.
StartResult AwaitReady(StopSignals& signals, const ServerState& state) {
  while (true) {
    if (state.has_failed) return StartResult::kFailed;
    if (state.is_ready) return StartResult::kReady;
    if (signals.Wait(std::nullopt) == StopSignals::Event::kSignal) return StartResult::kStopSignal;
  }
}

// Waits until the engine fails or a stop signal arrives. Returns false if the engine has failed.
bool AwaitStopSignal(StopSignals& signals, const ServerState& state) {
  while (signals.Wait(std::nullopt) != StopSignals::Event::kSignal) {
    if (state.has_failed) return false;
  }
  return true;
}

// Waits for the calls of clients in progress, but not longer than the drain timeout. Returns the
// exit code of the process.
int Drain(const Options& options, Server& server, StopSignals& signals, ServerState& state) {
  spdlog::info(
      "draining: waiting at most {} s for the calls in progress; a second stop signal ends the "
      "server immediately",
      ToSeconds(options.drain_timeout));
  const Time deadline = std::chrono::steady_clock::now() + options.drain_timeout;
  server.BeginDrain();
  server.WhenIdle([&] {
    state.is_idle = true;
    signals.Wake();
  });
  // Another event of `state` may also wake this thread.
  while (signals.Wait(deadline) == StopSignals::Event::kWake && !state.is_idle) {
    if (state.has_failed) return kExitFailure;
  }
  if (state.has_failed) return kExitFailure;
  if (!state.is_idle) spdlog::warn("stopping the server; calls in progress are aborted");
  return kExitOk;
}

// Reports that the server is ready, and serves until a stop signal arrives or the engine fails.
// Returns the exit code of the process.
int ServeUntilStopped(const Options& options, Server& server, StopSignals& signals,
                      ServerState& state) {
  switch (AwaitReady(signals, state)) {
    case StartResult::kFailed:
      return kExitFailure;
    case StartResult::kStopSignal:
      return Drain(options, server, signals, state);
    case StartResult::kReady:
      break;
  }
  if (!options.port_file.empty()) {
    const absl::Status status = WritePortFile(options, server);
    if (!status.ok()) return Report(status, kExitAddress);
  }
  SayReady(options, server);
  if (!AwaitStopSignal(signals, state)) return kExitFailure;
  return Drain(options, server, signals, state);
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
  absl::StatusOr<std::vector<PrewarmPrompt>> prewarm = ReadPrewarm(options);
  if (!prewarm.ok()) return Report(prewarm.status(), kExitUsage);
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
  loaded.parts.prewarm = *std::move(prewarm);
  // Set the scheduling policy of this thread, and of all threads started later, to SCHED_BATCH. A
  // thread that sends tokens then does not interrupt a thread that computes a step.
  if (IsCpu(*loaded.backend)) NeverInterruptOthers();
  ServerState state;
  ServerHooks hooks;
  hooks.on_fatal = [&](const absl::Status&) {
    state.has_failed = true;
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
  (*server)->WhenReady([&] {
    state.is_ready = true;
    signals.Wake();
  });
  const int exit_code = ServeUntilStopped(options, **server, signals, state);
  ExitOnSignalOrAfter(signals, kStopLongest + options.tier_drain_timeout, exit_code);
  server->reset();
  spdlog::info("stopped");
  std::fflush(nullptr);
  // End the process without running destructors, because freeing the memory would only take time.
  // All output has been flushed.
  _exit(exit_code);
}

}  // namespace incipit
