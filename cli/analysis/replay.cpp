#include "cli/analysis/replay.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/flags.h"
#include "base/status.h"
#include "cli/analysis/analyze_input.h"
#include "cli/analysis/offline_optimum.h"
#include "cli/analysis/replay_disk.h"
#include "cli/analysis/replay_output.h"
#include "cli/analysis/replay_run.h"
#include "cli/analysis/trace.h"
#include "cli/client/terminal.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "kvcache/kv_cache_manager.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {
namespace {

// Default of --block-size for logs of token ids, in tokens.
constexpr int32_t kReplayedTokenBlock = 16;
constexpr double kCapacityShareMin = 1e-9;

constexpr CommandText kReplayText = {
    "replay", "TRACE --blocks N | --capacity-share F [flags]",
    "Compares eviction policies on a log of prompts. The command replays the log through the\n"
    "block manager of the server and prints the hit ratio of each policy beside the best\n"
    "possible hit ratio (the optimum). The command needs no server and no model weights.\n"
    "\n"
    "TRACE is a file with one request per line; - is stdin. All lines have the same form:\n"
    "  - an object with hash_ids: one id for each block. An id stands for the block and all\n"
    "    previous blocks of the prompt.\n"
    "  - an array of token ids, or an object {\"token_ids\": array}\n"
    "  - a text, or an object {\"prompt\": text}; this form needs --tokenizer\n"
    "timestamp and input_length are read if a line has them.\n"
    "\n"
    "Requests run one at a time, in the order of the log. Every hash id is one full block. In a\n"
    "log of token ids, only full blocks count. All blocks of a prompt can be hits, including\n"
    "the last block. Output tokens are not cached. If a prompt is longer than the cache, its\n"
    "first blocks enter the cache, and all its blocks count for the hit ratio.\n"
    "\n"
    "By default, a policy evicts blocks after a prompt has entered the cache, and may evict\n"
    "blocks of this prompt. With --make-room-first, a policy evicts blocks before a prompt enters\n"
    "the cache, as a server does. --make-room-first does not change the optimum.\n"
    "\n"
    "Evictions are counted in blocks. Regret is the number of blocks that were computed again\n"
    "soon after their eviction: during the next N evictions, where N is a quarter of the number\n"
    "of blocks in the cache.\n"
    "\n"
    "With --disk-capacity-share, a simulated disk stores the chunks of the prompts. A lookup\n"
    "continues on the disk where the cache lacks a block. The log must have timestamps, because\n"
    "writes take time: chunks for which the queue of 256 MiB has no room are not stored.\n"
    "\n"
    "Exit codes: 0 success, 1 the log cannot be read or is wrong (the message names file and\n"
    "line), 2 a flag is wrong.",
    "  incipit replay trace.jsonl --capacity-share 0.1\n"
    "  incipit replay trace.jsonl --blocks 4096 --policy lru --json\n"
    "  incipit replay trace.jsonl --blocks 4096 --make-room-first\n"
    "  incipit replay trace.jsonl --capacity-share 0.05 --disk-capacity-share 0.5\n"
    "  incipit tokenize --tokenizer DIR < texts.jsonl | incipit replay - --blocks 1000\n"};

struct ReplayFlags {
  std::string log, tokenizer;
  std::optional<EvictionPolicyKind> policy;  // eviction policy to replay; absent: all policies
  TimestampUnit timestamp_unit = TimestampUnit::kMilliseconds;
  std::optional<int64_t> num_blocks;
  std::optional<double> capacity_share;
  std::optional<int32_t> block_size;
  bool make_room_first = false, json = false;
  ReplayDiskFlags disk;
};

void BindReplayFlags(Flags& flags, ReplayFlags& values) {
  flags.Group("Cache");
  flags.Integer({"blocks", "N", "Number of blocks in the cache."}, values.num_blocks,
                {1, kBlocksMax});
  flags.Real({"capacity-share", "F",
              "Cache size as a fraction of the number of distinct blocks in the log, rounded down "
              "to whole blocks. Give either --blocks or --capacity-share."},
             values.capacity_share, {kCapacityShareMin, 1});
  flags.Enum({"policy", "P", "Eviction policy to replay; all: every policy."}, values.policy, "all",
             kEvictionPolicyNames);
  flags.Switch({"make-room-first", "",
                "Evict blocks before a prompt enters the cache, so that no block of that prompt is "
                "evicted."},
               values.make_room_first);
  BindReplayDiskFlags(flags, values.disk);
  flags.Group("Log");
  flags.Integer({"block-size", "N",
                 "Number of tokens of a block. For logs of texts or token ids: a power of two up "
                 "to 256, default 16. For logs of hash ids: the number of tokens that each hash id "
                 "stands for; default 512."},
                values.block_size, {1, kAnalyzedBlockSizeMax});
  flags.String({"tokenizer", "DIR", "Folder with tokenizer.json. A log of texts needs this flag."},
               values.tokenizer);
  flags.Enum({"time-unit", "UNIT", "Unit of the timestamps in the log."}, values.timestamp_unit,
             kTimestampUnitNames);
  flags.Group("Output");
  flags.Switch({"json", "", "Print the results as one JSON object."}, values.json);
}

absl::Status CheckReplayFlags(const ReplayFlags& values) {
  if (values.num_blocks && values.capacity_share) {
    return InvalidArgument("--blocks and --capacity-share exclude each other");
  }
  if (!values.num_blocks && !values.capacity_share) {
    return InvalidArgument("one of --blocks and --capacity-share is needed");
  }
  return CheckReplayDiskFlags(values.disk);
}

absl::StatusOr<AnalysisInput> ReadBlocks(const ReplayFlags& values) {
  std::unique_ptr<Tokenizer> tokenizer;
  TraceTokenizer encode;
  if (!values.tokenizer.empty()) {
    INCIPIT_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(values.tokenizer));
    encode = [&](std::string_view text) { return tokenizer->Encode(text, {}); };
  }
  INCIPIT_ASSIGN_OR_RETURN(Trace trace, ReadTraceFile(values.log, encode));
  BlockingOptions options = {.name = values.log == "-" ? "stdin" : values.log,
                             .block_size = values.block_size,
                             .timestamp_unit = values.timestamp_unit};
  if (trace.form == TraceForm::kTokenIds) {
    if (!options.block_size) options.block_size = kReplayedTokenBlock;
    const absl::Status status =
        ValidateKvCacheOptions({.num_blocks = 1, .block_size = *options.block_size});
    if (!status.ok())
      return Annotate(status, "--block-size has a wrong value for a log of token ids");
  }
  return MakeBlocks(std::move(trace), options);
}

// Returns the cache size in blocks. The factor 1 + 1e-12 corrects rounding errors: 0.29 of 100
// blocks must be 29 blocks, not 28.
absl::StatusOr<int64_t> CapacityOf(const ReplayFlags& values, int64_t num_distinct) {
  if (values.num_blocks) return *values.num_blocks;
  const double blocks = *values.capacity_share * static_cast<double>(num_distinct);
  const auto capacity = static_cast<int64_t>(std::floor(blocks * (1 + 1e-12)));
  if (capacity < 1) {
    return InvalidArgument("--capacity-share {} of {} distinct blocks is less than one block",
                           *values.capacity_share, num_distinct);
  }
  return capacity;
}

absl::StatusOr<Replay> ReplayLog(const ReplayFlags& values) {
  INCIPIT_ASSIGN_OR_RETURN(AnalysisInput input, ReadBlocks(values));
  const BlockLog& log = *input.log;
  Replay replay = {.name = input.name,
                   .num_requests = static_cast<int64_t>(log.num_requests()),
                   .block_tokens = log.block_tokens(),
                   .num_distinct = static_cast<int64_t>(log.num_nodes()),
                   .make_room_first = values.make_room_first,
                   .notes = std::move(input.notes)};
  for (size_t r = 0; r < log.num_requests(); ++r) {
    replay.num_blocks += static_cast<int64_t>(log.chain(r).size());
    replay.num_tokens += log.request(r).input_tokens;
  }
  if (replay.num_blocks == 0) {
    return InvalidArgument("the prompts in {} have no full block of {} tokens", input.name,
                           log.block_tokens());
  }
  INCIPIT_ASSIGN_OR_RETURN(replay.capacity, CapacityOf(values, replay.num_distinct));
  replay.optimum_hits = OfflineOptimumHits(log, replay.capacity);
  std::optional<ReplayDisk> disk;
  if (values.disk.capacity_share) {
    INCIPIT_ASSIGN_OR_RETURN(const auto described, MakeReplayDisk(values.disk, input.name, log));
    disk = described.first;
    replay.disk = described.second;
  }
  for (const EnumName<EvictionPolicyKind>& policy : kEvictionPolicyNames) {
    if (values.policy && values.policy != policy.value) continue;
    replay.results.push_back(ReplayPolicy(log, {.form = input.form,
                                                .policy = policy.value,
                                                .capacity = replay.capacity,
                                                .make_room_first = values.make_room_first,
                                                .disk = disk}));
  }
  return replay;
}

}  // namespace

int RunReplay(std::span<const std::string_view> args) {
  ReplayFlags values;
  Flags flags;
  BindReplayFlags(flags, values);
  if (const auto exit_code = ParseArguments(kReplayText, flags, args, "TRACE", values.log)) {
    return *exit_code;
  }
  if (const absl::Status status = CheckReplayFlags(values); !status.ok()) {
    return ReportUsage(kReplayText, status);
  }
  const auto replay = ReplayLog(values);
  if (!replay.ok()) return ReportFailure(kReplayText, MessageOf(replay.status()));
  Print(stdout, values.json ? JsonLine(ToJson(*replay)) : Describe(*replay));
  return kExitOk;
}

}  // namespace incipit
