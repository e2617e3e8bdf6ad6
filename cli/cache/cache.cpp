#include "cli/cache/cache.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <string>

#include "cli/cache/cache_commands.h"
#include "cli/client/terminal.h"
#include "cli/command_line.h"
#include "cli/commands.h"

namespace incipit {
namespace {

constexpr Command kCacheCommands[] = {
    {"inspect", "list the prefixes in the folder of a disk cache", &RunCacheInspect},
    {"verify", "check every record in the folder of a disk cache", &RunCacheVerify},
    {"export", "write the records of a disk cache to a file", &RunCacheExport},
    {"import", "add the records in a file to a disk cache", &RunCacheImport},
};

constexpr CommandText kCacheText = {"cache", "COMMAND DIR", "", ""};

std::string Help() {
  return "Usage: incipit cache COMMAND DIR [--flag value]...\n\n"
         "Commands for DIR, the folder of a disk cache (`incipit serve --disk-cache DIR`):\n" +
         CommandLines(kCacheCommands) +
         "\n`incipit cache COMMAND --help` explains a command and its flags.\n";
}

}  // namespace

int RunCache(std::span<const std::string_view> args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    Print(args.empty() ? stderr : stdout, Help());
    return args.empty() ? kExitUsage : kExitOk;
  }
  const auto command = FindCommand(kCacheCommands, args[0], "");
  if (!command.ok()) return ReportUsage(kCacheText, command.status());
  return command->run(args.subspan(1));
}

std::string SizeText(uint64_t num_bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (num_bytes < 1024) return fmt::format("{} B", num_bytes);
  double size = static_cast<double>(num_bytes) / 1024;
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string KeyText(uint64_t prefix) {
  return fmt::format("{:02x}", fmt::join(std::bit_cast<std::array<uint8_t, 8>>(prefix), ""));
}

}  // namespace incipit
