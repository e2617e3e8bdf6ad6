#include "cli/command_line.h"

#include <fmt/format.h>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/terminal.h"

namespace incipit {

std::optional<int> ParseArguments(const CommandText& text, Flags& flags,
                                  std::span<const std::string_view> args) {
  if (const absl::Status status = flags.ParseAll(args); !status.ok()) {
    return ReportUsage(text, status);
  }
  if (!flags.help_requested()) return std::nullopt;
  const Painter paint(stdout);
  Print(stdout, fmt::format("{} incipit {} {}\n\n{}\n\n{}\n{}\n{}", paint.Bold("Usage:"), text.name,
                            text.synopsis, text.description, flags.Help(), paint.Bold("Examples:"),
                            text.examples));
  return kExitOk;
}

int ReportUsage(const CommandText& text, const absl::Status& status) {
  Print(stderr, fmt::format("{} {}\nincipit {} --help shows every flag and some examples.\n",
                            Painter(stderr).Red(fmt::format("incipit {}:", text.name)),
                            MessageOf(status), text.name));
  return kExitUsage;
}

int ReportFailure(const CommandText& text, std::string_view message) {
  Print(stderr, fmt::format("{} {}\n", Painter(stderr).Red(fmt::format("incipit {}:", text.name)),
                            message));
  return kExitFailure;
}

}  // namespace incipit
