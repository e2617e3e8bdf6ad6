#include "cli/file_fault.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/check.h"

namespace incipit {
namespace {

// The message that the SIGBUS handler prints. The message is prepared before the handler is
// installed, because a signal handler must not allocate memory or lock a mutex.
std::array<char, 1024> g_message;
size_t g_message_size = 0;
int g_exit_code = 1;

void HandleBusError(int signal, siginfo_t* info, void* /*context*/) {
  if (info->si_code != BUS_ADRERR) {
    // Restore the default action of SIGBUS, which ends the process. The instruction that raised
    // SIGBUS runs again after the handler, and raises SIGBUS again.
    std::signal(signal, SIG_DFL);
    return;
  }
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, g_message.data(), g_message_size);
  _exit(g_exit_code);
}

}  // namespace

void ExitOnFileFault(std::string_view folder, int exit_code) {
  const auto end =
      fmt::format_to_n(g_message.data(), g_message.size() - 1,
                       "incipit serve: a file in {} was truncated while the server used the file",
                       folder.substr(0, 900));
  g_message_size = std::min(end.size, g_message.size() - 1);
  g_message[g_message_size++] = '\n';
  g_exit_code = exit_code;
  struct sigaction action {};
  action.sa_sigaction = HandleBusError;
  action.sa_flags = SA_SIGINFO;
  INCIPIT_CHECK(sigaction(SIGBUS, &action, nullptr) == 0);
}

}  // namespace incipit
