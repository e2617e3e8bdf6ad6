// The command `incipit cache import`.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "cli/cache/archive_files.h"
#include "cli/cache/cache_commands.h"
#include "cli/cache/import_archive.h"
#include "cli/cache/progress.h"
#include "cli/client/terminal.h"
#include "cli/commands.h"
#include "server/options.h"
#include "tier/files/posix_file_system.h"

namespace incipit {
namespace {

constexpr CommandText kImportText = {
    "cache import", "DIR FILE --size SIZE",
    "Adds the records in FILE, which `incipit cache export` has written, to the folder of a disk\n"
    "cache. FILE - is stdin. The command creates the folder if the folder is missing. No server\n"
    "may use the folder at the same time.\n"
    "\n"
    "The command verifies each record. Damaged and expired records, and records that the folder\n"
    "already has, are skipped. If the folder is full, the oldest files are deleted. A server uses\n"
    "only records with its own fingerprint: the same model, weights, type of keys and values,\n"
    "block size, kind of backend and instruction set.\n"
    "\n"
    "Import only files of machines and users that you trust. The checksums detect damage, but\n"
    "not keys and values that were changed on purpose.\n"
    "\n"
    "Exit codes: 0 success, 1 FILE is damaged or incomplete, or the disk failed (valid records\n"
    "are imported anyway), 2 a flag is wrong, or the folder cannot be used.",
    "  incipit cache import /var/cache/incipit cache.export --size 100GiB\n"
    "  ssh HOST incipit cache export DIR - | incipit cache import /var/cache/incipit - --size "
    "100GiB\n"};

// Prepares the folder and takes its lock.
absl::Status PrepareFolder(FileSystem& files, const std::string& path) {
  INCIPIT_RETURN_IF_ERROR(files.Prepare());
  INCIPIT_ASSIGN_OR_RETURN(const bool has_lock, files.Lock());
  if (has_lock) return absl::OkStatus();
  return FailedPrecondition("another process uses {}; stop the server first", path);
}

}  // namespace

int RunCacheImport(std::span<const std::string_view> args) {
  std::string path, file_path;
  int64_t size = 0;
  Flags flags;
  flags.Bytes({"size", "SIZE",
               "Maximum size of all files in DIR, as --disk-cache-size of `incipit serve`. At "
               "least 256 MiB."},
              size, {0, int64_t{64} << 40});
  if (const auto exit_code =
          ParseArguments(kImportText, flags, args, {{"DIR", path}, {"FILE", file_path}})) {
    return *exit_code;
  }
  if (size < kDiskCacheSizeMin) {
    return ReportUsage(kImportText, InvalidArgument("--size is {}; it must be at least {}", size,
                                                    kDiskCacheSizeMin));
  }
  auto archive = InputFile::Open(file_path);
  if (!archive.ok()) return ReportFailure(kImportText, MessageOf(archive.status()));
  const std::unique_ptr<FileSystem> files = MakePosixFileSystem(path, IoMethod::kPread);
  if (const absl::Status status = PrepareFolder(*files, path); !status.ok()) {
    return ReportUsage(kImportText, status);
  }
  ImportResult result;
  {
    Progress progress(kImportText.name);
    result = ImportArchive(*archive, *files,
                           {.size_bytes = static_cast<uint64_t>(size), .now_s = UnixSeconds()},
                           progress);
  }
  files->Unlock();
  Print(
      stderr,
      fmt::format("imported {} records, {}; not imported: {} already in the folder, {} damaged, {} "
                  "expired; {} older chunks removed\n",
                  result.num_imported, SizeText(result.num_bytes), result.num_present,
                  result.num_damaged, result.num_expired, result.num_reclaimed));
  if (!result.status.ok()) return ReportFailure(kImportText, MessageOf(result.status));
  if (result.num_damaged == 0) return kExitOk;
  return ReportFailure(kImportText,
                       fmt::format("{} records of {} are damaged", result.num_damaged, file_path));
}

}  // namespace incipit
