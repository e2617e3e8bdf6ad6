// The command `incipit cache inspect`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cli/analysis/analyze_text.h"
#include "cli/cache/cache_commands.h"
#include "cli/cache/inspect_folder.h"
#include "cli/cache/progress.h"
#include "cli/client/terminal.h"
#include "cli/commands.h"
#include "cli/json_text.h"

namespace incipit {
namespace {

using nlohmann::ordered_json;
using Align = TextTable::Align;

constexpr CommandText kInspectText = {
    "cache inspect", "DIR [flags]",
    "Lists what the folder of a disk cache contains. A server may use the folder at the same\n"
    "time. The command changes no file, and needs no model. The output contains numbers of\n"
    "tokens, but no text and no token ids.\n"
    "\n"
    "The first table has one row for each fingerprint. Chunks with the same fingerprint were\n"
    "computed with the same model, weights, type of keys and values, and kind of backend.\n"
    "\n"
    "The second table has one row for each prefix, largest first. A prefix is a chunk whose\n"
    "previous chunk is not stored (the root), together with all chunks that follow the root in\n"
    "any sequence. Its columns:\n"
    "  prefix    first 16 hexadecimal digits of the key of the root\n"
    "  tenant    hash of the tenant whose request computed the root; -: no tenant\n"
    "  start     position of the first token of the root; above 0 if earlier chunks are missing\n"
    "  chunks, tokens, size    of all chunks of the prefix\n"
    "  shared    number of tokens until two sequences differ, or until the only sequence ends\n"
    "  longest   number of tokens of the longest sequence, counted from the root\n"
    "  hits      loads of the chunk with the most loads, until the last clean end of a server\n"
    "  oldest, newest    age of the oldest and of the newest chunk\n"
    "  expires   time until the first chunk expires; -: no chunk expires\n"
    "\n"
    "The command reads only tables and headers, and does not find damaged chunks. `incipit cache\n"
    "verify` finds damaged chunks.\n"
    "\n"
    "Exit codes: 0 success, 2 a flag is wrong or the folder cannot be read.",
    "  incipit cache inspect /var/cache/incipit\n"
    "  incipit cache inspect /var/cache/incipit --limit 100 --json\n"};

// A prefix with its fingerprint.
struct PrefixRow {
  const FingerprintContents* contents;
  const StoredPrefix* prefix;

  uint64_t num_bytes() const { return prefix->num_chunks * contents->record_bytes; }
  uint64_t tokens(uint64_t num_chunks) const { return num_chunks * contents->chunk_tokens; }
};

// Returns the `limit` largest prefixes of all fingerprints.
std::vector<PrefixRow> LargestPrefixes(const std::vector<FingerprintContents>& all, size_t limit) {
  std::vector<PrefixRow> rows;
  for (const FingerprintContents& contents : all) {
    const size_t count = std::min(limit, contents.prefixes.size());
    for (size_t i = 0; i < count; ++i) rows.push_back({&contents, &contents.prefixes[i]});
  }
  std::ranges::stable_sort(
      rows, [](const PrefixRow& a, const PrefixRow& b) { return a.num_bytes() > b.num_bytes(); });
  if (rows.size() > limit) rows.resize(limit);
  return rows;
}

uint64_t NumPrefixes(const std::vector<FingerprintContents>& all) {
  uint64_t count = 0;
  for (const FingerprintContents& contents : all) count += contents.prefixes.size();
  return count;
}

ordered_json JsonOf(const FingerprintContents& contents) {
  return {{"fingerprint", contents.name},
          {"segments", contents.num_segments},
          {"damaged_segments", contents.num_damaged},
          {"bytes", contents.num_bytes},
          {"records", contents.num_records},
          {"expired_records", contents.num_expired},
          {"record_bytes", contents.record_bytes},
          {"chunk_tokens", contents.chunk_tokens},
          {"prefixes", contents.prefixes.size()}};
}

ordered_json TenantJson(const StoredPrefix& prefix) {
  if (prefix.has_several_tenants) return "several";
  if (prefix.tenant == 0) return nullptr;
  return fmt::format("{:016x}", prefix.tenant);
}

ordered_json JsonOf(const PrefixRow& row, int64_t now_s) {
  const StoredPrefix& prefix = *row.prefix;
  const auto expiry = prefix.next_expiry_s == 0 ? ordered_json(nullptr)
                                                : ordered_json(prefix.next_expiry_s - now_s);
  return {{"prefix", KeyText(prefix.key)},
          {"fingerprint", row.contents->name},
          {"tenant", TenantJson(prefix)},
          {"first_token", prefix.first_token},
          {"chunks", prefix.num_chunks},
          {"tokens", row.tokens(prefix.num_chunks)},
          {"shared_tokens", row.tokens(prefix.num_shared)},
          {"longest_tokens", row.tokens(prefix.num_longest)},
          {"bytes", row.num_bytes()},
          {"hits", prefix.hits_max},
          {"oldest_age_s", now_s - prefix.oldest_s},
          {"newest_age_s", now_s - prefix.newest_s},
          {"expires_in_s", expiry}};
}

void PrintJson(const std::vector<FingerprintContents>& all, const std::vector<PrefixRow>& rows,
               int64_t now_s) {
  ordered_json fingerprints = ordered_json::array(), prefixes = ordered_json::array();
  for (const FingerprintContents& contents : all) fingerprints.push_back(JsonOf(contents));
  for (const PrefixRow& row : rows) prefixes.push_back(JsonOf(row, now_s));
  Print(stdout, JsonLine({{"fingerprints", std::move(fingerprints)},
                          {"num_prefixes", NumPrefixes(all)},
                          {"prefixes", std::move(prefixes)}}));
}

std::string AgeText(int64_t seconds) {
  return seconds <= 0 ? "0 s" : TimeText(static_cast<double>(seconds));
}

std::string FingerprintTable(const std::vector<FingerprintContents>& all) {
  TextTable table({{"fingerprint", Align::kLeft},
                   {"segments"},
                   {"damaged"},
                   {"size"},
                   {"records"},
                   {"expired"},
                   {"tokens per chunk"},
                   {"prefixes"}});
  for (const FingerprintContents& c : all) {
    table.Add({c.name, fmt::to_string(c.num_segments), fmt::to_string(c.num_damaged),
               SizeText(c.num_bytes), fmt::to_string(c.num_records), fmt::to_string(c.num_expired),
               c.chunk_tokens == 0 ? "?" : fmt::to_string(c.chunk_tokens),
               fmt::to_string(c.prefixes.size())});
  }
  return table.Text(0);
}

std::string PrefixTable(const std::vector<PrefixRow>& rows, int64_t now_s) {
  TextTable table({{"prefix", Align::kLeft},
                   {"fingerprint", Align::kLeft},
                   {"tenant", Align::kLeft},
                   {"start"},
                   {"chunks"},
                   {"tokens"},
                   {"shared"},
                   {"longest"},
                   {"size"},
                   {"hits"},
                   {"oldest"},
                   {"newest"},
                   {"expires"}});
  for (const PrefixRow& row : rows) {
    const StoredPrefix& p = *row.prefix;
    const ordered_json tenant = TenantJson(p);
    table.Add({KeyText(p.key), row.contents->name,
               tenant.is_null() ? "-" : tenant.get<std::string>(), fmt::to_string(p.first_token),
               fmt::to_string(p.num_chunks), fmt::to_string(row.tokens(p.num_chunks)),
               fmt::to_string(row.tokens(p.num_shared)), fmt::to_string(row.tokens(p.num_longest)),
               SizeText(row.num_bytes()), fmt::to_string(p.hits_max), AgeText(now_s - p.oldest_s),
               AgeText(now_s - p.newest_s),
               p.next_expiry_s == 0 ? "-" : AgeText(p.next_expiry_s - now_s)});
  }
  return table.Text(0);
}

void PrintText(const std::vector<FingerprintContents>& all, const std::vector<PrefixRow>& rows,
               int64_t now_s) {
  if (all.empty()) return Print(stdout, "The folder has no segments of a disk cache.\n");
  std::string text = FingerprintTable(all);
  if (!rows.empty()) {
    text += fmt::format("\nThe {} largest of {} prefixes:\n\n", rows.size(), NumPrefixes(all)) +
            PrefixTable(rows, now_s);
  }
  Print(stdout, text);
}

}  // namespace

int RunCacheInspect(std::span<const std::string_view> args) {
  std::string path;
  int64_t limit = 20;
  bool json = false;
  Flags flags;
  flags.Integer({"limit", "N", "Maximum number of prefixes in the output."}, limit, {0});
  flags.Switch({"json", "", "Print one JSON object."}, json);
  if (const auto exit_code = ParseArguments(kInspectText, flags, args, "DIR", path)) {
    return *exit_code;
  }
  const auto folder = CacheFolder::Open(path);
  if (!folder.ok()) return ReportUsage(kInspectText, folder.status());
  const int64_t now_s = UnixSeconds();
  absl::StatusOr<std::vector<FingerprintContents>> all;
  {
    Progress progress(kInspectText.name);
    all = InspectFolder(*folder, now_s, progress);
  }
  if (!all.ok()) return ReportUsage(kInspectText, all.status());
  const std::vector<PrefixRow> rows = LargestPrefixes(*all, static_cast<size_t>(limit));
  json ? PrintJson(*all, rows, now_s) : PrintText(*all, rows, now_s);
  return kExitOk;
}

}  // namespace incipit
