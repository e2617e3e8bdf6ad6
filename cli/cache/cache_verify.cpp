// The command `incipit cache verify`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "cli/cache/cache_commands.h"
#include "cli/cache/progress.h"
#include "cli/cache/verify_folder.h"
#include "cli/client/terminal.h"
#include "cli/commands.h"
#include "cli/json_text.h"

namespace incipit {
namespace {

using nlohmann::ordered_json;

// Maximum number of damages in the output. The numbers in the output count all damages.
constexpr size_t kDamagesListedMax = 1000;

constexpr CommandText kVerifyText = {
    "cache verify", "DIR [flags]",
    "Reads every record in the folder of a disk cache and checks header, table and checksum. A\n"
    "server may use the folder at the same time. The command changes no file, and needs no\n"
    "model. A server never uses a damaged record: the server computes the tokens instead.\n"
    "\n"
    "The output has one line for each damage, and then the numbers of records:\n"
    "  good      a server with the same fingerprint can load the record\n"
    "  damaged   the bytes are not the bytes that a server has written, or are incomplete because\n"
    "            a server was killed\n"
    "  expired   the time of the retention hint has passed\n"
    "  erased    a server has removed the record\n"
    "  changing  a server wrote the record at the same time\n"
    "\n"
    "Exit codes: 0 nothing is damaged, 1 a record or a segment is damaged, 2 a flag is wrong or\n"
    "the folder cannot be read.",
    "  incipit cache verify /var/cache/incipit\n"
    "  incipit cache verify /var/cache/incipit --json\n"};

std::span<const CacheDamage> Listed(const CacheVerification& result) {
  return std::span(result.damages).first(std::min(kDamagesListedMax, result.damages.size()));
}

void PrintJson(const CacheVerification& result) {
  ordered_json damages = ordered_json::array();
  for (const CacheDamage& damage : Listed(result)) {
    const bool is_record = damage.index != CacheDamage::kSegment;
    damages.push_back({{"segment", damage.segment},
                       {"index", is_record ? ordered_json(damage.index) : ordered_json(nullptr)},
                       {"reason", damage.reason}});
  }
  Print(stdout, JsonLine({{"segments", result.num_segments},
                          {"bytes", result.num_bytes},
                          {"good", result.num_good},
                          {"damaged", result.num_damaged()},
                          {"expired", result.num_expired},
                          {"erased", result.num_erased},
                          {"changing", result.num_changing},
                          {"damages", std::move(damages)}}));
}

void PrintText(const CacheVerification& result) {
  std::string text;
  for (const CacheDamage& damage : Listed(result)) {
    text += damage.index == CacheDamage::kSegment
                ? fmt::format("damaged: {}\n", damage.reason)
                : fmt::format("damaged: {}: record {}: {}\n", damage.segment, damage.index,
                              damage.reason);
  }
  if (result.num_damaged() > kDamagesListedMax) {
    text += fmt::format("{} more are damaged\n", result.num_damaged() - kDamagesListedMax);
  }
  text += fmt::format("good {}, damaged {}, expired {}, erased {}, changing {}; {} segments, {}\n",
                      result.num_good, result.num_damaged(), result.num_expired, result.num_erased,
                      result.num_changing, result.num_segments, SizeText(result.num_bytes));
  Print(stdout, text);
}

}  // namespace

int RunCacheVerify(std::span<const std::string_view> args) {
  std::string path;
  bool json = false;
  Flags flags;
  flags.Switch({"json", "", "Print one JSON object."}, json);
  if (const auto exit_code = ParseArguments(kVerifyText, flags, args, "DIR", path)) {
    return *exit_code;
  }
  const auto folder = CacheFolder::Open(path);
  if (!folder.ok()) return ReportUsage(kVerifyText, folder.status());
  absl::StatusOr<CacheVerification> result;
  {
    Progress progress(kVerifyText.name);
    result = VerifyFolder(*folder, UnixSeconds(), progress);
  }
  if (!result.ok()) return ReportUsage(kVerifyText, result.status());
  json ? PrintJson(*result) : PrintText(*result);
  return result->num_damaged() == 0 ? kExitOk : kExitFailure;
}

}  // namespace incipit
