#include "cli/cache/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace incipit {
namespace {

constexpr Duration kPause = std::chrono::seconds(1);  // time between two lines
// Moves to the start of the line and erases the line.
constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

Progress::Progress(std::string_view command)
    : command_(command),
      is_terminal_(isatty(STDERR_FILENO) == 1),
      next_line_(SteadyClock().Now() + kPause) {}

Progress::~Progress() {
  if (!has_line_) return;
  fmt::print(stderr, "{}", kEraseLine);
  std::fflush(stderr);
}

void Progress::Report(uint64_t done, uint64_t total, std::string_view unit) {
  if (!is_terminal_) return;
  const Time now = SteadyClock().Now();
  if (now < next_line_) return;
  next_line_ = now + kPause;
  has_line_ = true;
  const std::string of = total == 0 ? std::string() : fmt::format(" of {}", total);
  fmt::print(stderr, "{}incipit {}: {}{} {}", kEraseLine, command_, done, of, unit);
  std::fflush(stderr);
}

}  // namespace incipit
