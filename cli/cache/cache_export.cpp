// The command `incipit cache export`.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "cli/cache/archive_files.h"
#include "cli/cache/cache_commands.h"
#include "cli/cache/export_folder.h"
#include "cli/cache/progress.h"
#include "cli/client/interrupt.h"
#include "cli/client/terminal.h"
#include "cli/commands.h"
#include "tier/segments/segment.h"

namespace incipit {
namespace {

constexpr CommandText kExportText = {
    "cache export", "DIR FILE [flags]",
    "Writes the records in the folder of a disk cache to one file, to move them to another\n"
    "machine with `incipit cache import`. FILE - is stdout. A server may use the folder at the\n"
    "same time. The command changes no file in the folder, and needs no model. Damaged and\n"
    "expired records are not written.\n"
    "\n"
    "The file contains the token ids of the prompts. Only the user of the command may read the\n"
    "file. The command replaces FILE when the whole file is written.\n"
    "\n"
    "Exit codes: 0 success, 1 FILE cannot be written, 2 a flag is wrong, the folder cannot be\n"
    "read, or the folder has nothing to export.",
    "  incipit cache export /var/cache/incipit cache.export\n"
    "  incipit cache export /var/cache/incipit - | ssh HOST incipit cache import DIR - --size "
    "100GiB\n"};

absl::Status CheckFingerprint(std::string_view fingerprint) {
  if (fingerprint.empty() || IsFingerprintName(fingerprint)) return absl::OkStatus();
  return InvalidArgument(
      "--fingerprint {} is wrong; it must have {} hexadecimal digits, as in the output of `incipit "
      "cache inspect`",
      fingerprint.substr(0, 80), kFingerprintDigits);
}

}  // namespace

int RunCacheExport(std::span<const std::string_view> args) {
  std::string path, file_path;
  ExportOptions options = {.fingerprint = {}, .now_s = UnixSeconds()};
  Flags flags;
  flags.String({"fingerprint", "F",
                "Export only the records with the fingerprint F, the first 16 hexadecimal digits. "
                "Default: empty, all records."},
               options.fingerprint);
  if (const auto exit_code =
          ParseArguments(kExportText, flags, args, {{"DIR", path}, {"FILE", file_path}})) {
    return *exit_code;
  }
  if (const absl::Status status = CheckFingerprint(options.fingerprint); !status.ok()) {
    return ReportUsage(kExportText, status);
  }
  if (file_path == kStandardStream && isatty(STDOUT_FILENO) == 1) {
    return ReportUsage(kExportText, InvalidArgument("stdout is a terminal"));
  }
  const auto folder = CacheFolder::Open(path);
  if (!folder.ok()) return ReportUsage(kExportText, folder.status());
  auto file = OutputFile::Create(file_path);
  if (!file.ok()) return ReportFailure(kExportText, MessageOf(file.status()));
  absl::StatusOr<ExportResult> result;
  {
    std::atomic<bool> is_cancelled = false;
    const Interrupt interrupt([&] { is_cancelled = true; });
    Progress progress(kExportText.name);
    result = ExportFolder(*folder, options, *file, is_cancelled, progress);
  }
  if (absl::IsNotFound(result.status())) return ReportUsage(kExportText, result.status());
  if (!result.ok()) return ReportFailure(kExportText, MessageOf(result.status()));
  Print(stderr, fmt::format("exported {} records, {}; not exported: {} damaged, {} expired\n",
                            result->num_exported, SizeText(result->num_bytes), result->num_damaged,
                            result->num_expired));
  return kExitOk;
}

}  // namespace incipit
