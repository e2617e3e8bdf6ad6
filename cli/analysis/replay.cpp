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

// Where --block-size does not say. Mooncake's traces have 512 tokens an id.
constexpr int32_t kReplayedTokenBlock = 16;
constexpr double kCapacityShareMin = 1e-9;

constexpr CommandText kReplayText = {
    "replay", "TRACE --blocks N | --capacity-share F [flags]",
    "Says what eviction policies make of a log of prompts: replays it through the server's own\n"
    "block manager, one request after the other, and prints how many blocks each policy hits,\n"
    "beside what a cache that knows the future would hit. Needs no server and no model.\n"
    "\n"
    "TRACE has one request a line (- is stdin), in the forms that `incipit analyze` reads: an\n"
    "object with hash_ids, one for each block of the prompt together with all before it; an\n"
    "array of token ids, or an object with them as token_ids; or a text, or an object with it\n"
    "as prompt, for which --tokenizer is needed. timestamp and input_length are read where they\n"
    "are.\n"
    "\n"
    "Requests come in the order of the log, each when the one before it is done. Every hash id\n"
    "is one full block; of token ids only full blocks count. All blocks of a prompt can be\n"
    "hits, its last one too; answers are not cached. Of a prompt that is longer than the cache\n"
    "the first blocks enter, and all count.\n"
    "\n"
    "By default a prompt's own blocks may be given up for it, as if there were room for one\n"
    "prompt beside the cache. A server must have the room before the prompt enters:\n"
    "--make-room-first. The optimum is for the default.\n"
    "\n"
    "Evictions are counted in blocks. Regret is how many blocks were computed again soon after\n"
    "they were evicted: before a quarter as many others were as the pool has.\n"
    "\n"
    "Exit code: 0, 1 if the log cannot be read or is wrong (the message names file and line), 2\n"
    "if a flag is wrong.",
    "  incipit replay trace.jsonl --capacity-share 0.1\n"
    "  incipit replay trace.jsonl --blocks 4096 --policy lru --json\n"
    "  incipit replay trace.jsonl --blocks 4096 --make-room-first\n"
    "  incipit tokenize --tokenizer DIR < texts.jsonl | incipit replay - --blocks 1000\n"};

struct ReplayFlags {
  std::string log, tokenizer;
  std::optional<EvictionPolicyKind> policy;  // absent: all
  TimestampUnit timestamp_unit = TimestampUnit::kMilliseconds;
  std::optional<int64_t> num_blocks;
  std::optional<double> capacity_share;
  std::optional<int32_t> block_size;
  bool make_room_first = false, json = false;
};

void BindReplayFlags(Flags& flags, ReplayFlags& values) {
  flags.Group("Cache");
  flags.Integer({"blocks", "N", "How many blocks it holds."}, values.num_blocks, {1, kBlocksMax});
  flags.Real({"capacity-share", "F",
              "The same as a part of the log's distinct blocks, rounded down. One of the two is "
              "needed."},
             values.capacity_share, {kCapacityShareMin, 1});
  flags.Enum({"policy", "P", "Which block is given up."}, values.policy, "all",
             kEvictionPolicyNames);
  flags.Switch({"make-room-first", "",
                "Make room before a prompt enters, so that none of its own blocks is given up."},
               values.make_room_first);
  flags.Group("Log");
  flags.Integer(
      {"block-size", "N",
       "Tokens of a block: of token ids a power of two up to 256, 16 if it is not given; "
       "of hash ids any number, 512 if it is not given, which tells what hits stand for and "
       "how long the adaptive policy takes blocks to be."},
      values.block_size, {1, kAnalyzedBlockSizeMax});
  flags.String({"tokenizer", "DIR", "A folder with tokenizer.json, for logs of texts."},
               values.tokenizer);
  flags.Enum({"time-unit", "UNIT", "Of timestamps."}, values.timestamp_unit, kTimestampUnitNames);
  flags.Group("Output");
  flags.Switch({"json", "", "Print one JSON object."}, values.json);
}

absl::Status CheckReplayFlags(const ReplayFlags& values) {
  if (values.num_blocks && values.capacity_share) {
    return InvalidArgument("--blocks and --capacity-share exclude each other");
  }
  if (!values.num_blocks && !values.capacity_share) {
    return InvalidArgument("one of --blocks and --capacity-share is needed");
  }
  return absl::OkStatus();
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
    if (!status.ok()) return Annotate(status, "--block-size for token ids");
  }
  return MakeBlocks(std::move(trace), options);
}

// A share that was meant as a whole number of blocks is that number: 0.29 of 100 is 29.
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
    return InvalidArgument("{} has no full block of {} tokens", input.name, log.block_tokens());
  }
  INCIPIT_ASSIGN_OR_RETURN(replay.capacity, CapacityOf(values, replay.num_distinct));
  replay.optimum_hits = OfflineOptimumHits(log, replay.capacity);
  for (const EnumName<EvictionPolicyKind>& policy : kEvictionPolicyNames) {
    if (values.policy && values.policy != policy.value) continue;
    replay.results.push_back(ReplayPolicy(log, {.form = input.form,
                                                .policy = policy.value,
                                                .capacity = replay.capacity,
                                                .make_room_first = values.make_room_first}));
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
