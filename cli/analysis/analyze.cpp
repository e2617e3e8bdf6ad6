#include "cli/analysis/analyze.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "base/flags.h"
#include "base/status.h"
#include "cli/analysis/analyze_output.h"
#include "cli/analysis/trace.h"
#include "cli/client/terminal.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "kvcache/kv_layout.h"
#include "text/tokenizer/tokenizer.h"
#include "transformer/config.h"

namespace incipit {
namespace {

constexpr CommandText kAnalyzeText = {
    "analyze", "LOG [flags]",
    "Reports how much a prefix cache can save for a log of prompts: the share of prompt tokens\n"
    "in repeated prefixes, the cache size needed for a given saving, the prefixes that requests\n"
    "share, and the number of distinct blocks used within a time window. The command needs no\n"
    "server and no model weights.\n"
    "\n"
    "LOG is a file with one request per line; - is stdin. All lines must have the same form:\n"
    "  - a text, or an object {\"prompt\": text}; this form needs --tokenizer\n"
    "  - an array of token ids, or an object {\"token_ids\": array}\n"
    "  - an object with hash_ids and input_length, as in the Mooncake traces. Each hash id\n"
    "    stands for one block and all previous blocks of the prompt.\n"
    "timestamp and output_length are read if a line has them.\n"
    "\n"
    "All figures are computed for blocks of --block-size tokens and for blocks of 2, 4 and 8\n"
    "times that size. Cache sizes are for a cache that evicts the least recently used block.\n"
    "`incipit replay` compares other eviction policies. In the output, \"attainable\" means the\n"
    "savings of a cache without a size limit.\n"
    "\n"
    "Exit codes: 0 success; 1 the log cannot be read or is wrong (the message names file and\n"
    "line), or a file cannot be written; 2 a flag is wrong.",
    "  incipit analyze trace.jsonl\n"
    "  incipit analyze prompts.jsonl --tokenizer models/incipit-tiny --model models/incipit-tiny\n"
    "  incipit analyze trace.jsonl --block-size 512 --bytes-per-token 131072 --svg plots\n"
    "  incipit tokenize --tokenizer DIR < texts.jsonl | incipit analyze - --json\n"};

struct AnalyzeFlags {
  std::string log, tokenizer, model, svg;
  std::optional<DType> kv_dtype;
  TimestampUnit timestamp_unit = TimestampUnit::kMilliseconds;
  std::optional<int32_t> block_size;
  std::optional<int64_t> bytes_per_token;
  Duration window{};
  int32_t top = 10;
  bool json = false;
};

void BindAnalyzeFlags(Flags& flags, AnalyzeFlags& values) {
  flags.Group("Log");
  flags.String({"tokenizer", "DIR", "Folder with tokenizer.json. A log of texts needs this flag."},
               values.tokenizer);
  flags.Integer(
      {"block-size", "N",
       "Number of tokens in a block. For logs of texts or token ids: the smallest analysed block "
       "size, default 8. For logs of hash ids: the number of tokens that each hash id stands for, "
       "default 512."},
      values.block_size, {1, kAnalyzedBlockSizeMax});
  flags.Enum({"time-unit", "UNIT", "Unit of the timestamps in the log."}, values.timestamp_unit,
             kTimestampUnitNames);
  flags.Group("Figures");
  flags.Interval(
      {"window", "TIME",
       "Length of the time window in which distinct blocks are counted (the working set). "
       "0s: the command chooses three lengths, about 1/60, 1/15 and 1/4 of the time from the first "
       "to the last request."},
      values.window, {Duration::zero(), FromSeconds(1e8)});
  flags.Integer({"top", "N", "Maximum number of shared prefixes that the output lists."},
                values.top, {0, 10'000});
  flags.Integer({"bytes-per-token", "N",
                 "Size of the keys and values of one token, in bytes. With this flag, the output "
                 "also shows cache sizes in GiB."},
                values.bytes_per_token, {1, int64_t{1} << 40});
  flags.String(
      {"model", "DIR",
       "Model folder. The size of the keys and values of one token follows from its config.json."},
      values.model);
  flags.Enum({"kv-dtype", "TYPE",
              "With --model: element type of keys and values. auto: f32 for f32 checkpoints, "
              "otherwise bf16."},
             values.kv_dtype, "auto", kDTypeNames);
  flags.Group("Output");
  flags.Switch({"json", "", "Print the analysis as one JSON object."}, values.json);
  flags.String(
      {"svg", "DIR",
       "Also write hit_ratio.svg, working_set.svg and shared_prefix.svg to DIR. The folder DIR "
       "is created if it does not exist."},
      values.svg);
}

absl::Status CheckAnalyzeFlags(const Flags& flags, const AnalyzeFlags& values) {
  if (!values.model.empty() && values.bytes_per_token) {
    return InvalidArgument("--model and --bytes-per-token exclude each other");
  }
  if (values.model.empty() && flags.IsSet("kv-dtype")) {
    return InvalidArgument("--kv-dtype needs --model");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int64_t>> BytesPerToken(const AnalyzeFlags& values) {
  if (values.model.empty()) return values.bytes_per_token;
  INCIPIT_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(values.model));
  const std::optional<DType> dtype = values.kv_dtype ? values.kv_dtype : config.dtype;
  if (!dtype) {
    return FailedPrecondition(
        "{}: config.json does not name the type of the weights; set --kv-dtype", values.model);
  }
  return BytesPerBlock({.num_layers = config.num_layers,
                        .num_kv_heads = config.num_kv_heads,
                        .head_dim = config.head_dim,
                        .bytes_per_element = static_cast<int32_t>(ByteSize(*dtype)),
                        .block_size = 1});
}

absl::StatusOr<Analysis> AnalyzeLog(const AnalyzeFlags& values) {
  AnalysisOptions options;
  INCIPIT_ASSIGN_OR_RETURN(options.bytes_per_token, BytesPerToken(values));
  std::unique_ptr<Tokenizer> tokenizer;
  TraceTokenizer encode;
  if (!values.tokenizer.empty()) {
    INCIPIT_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(values.tokenizer));
    encode = [&](std::string_view text) { return tokenizer->Encode(text, {}); };
    options.decode = [&](std::span<const TokenId> ids) {
      return tokenizer->Decode(ids, /*skip_special_tokens=*/false);
    };
  }
  INCIPIT_ASSIGN_OR_RETURN(Trace trace, ReadTraceFile(values.log, encode));
  INCIPIT_ASSIGN_OR_RETURN(
      const AnalysisInput input,
      MakeBlocks(std::move(trace), {.name = values.log == "-" ? "stdin" : values.log,
                                    .block_size = values.block_size,
                                    .timestamp_unit = values.timestamp_unit}));
  if (values.window > Duration::zero()) options.window = ToSeconds(values.window);
  options.num_top_prefixes = static_cast<size_t>(values.top);
  return Analyze(input, options);
}

absl::Status WritePlots(const Analysis& analysis, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Internal("the folder {} cannot be created: {}", folder.string(), error.message());
  for (const Plot& plot : DrawPlots(analysis)) {
    const std::string path = (folder / plot.file_name).string();
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) return Internal("cannot write {}: {}", path, std::strerror(errno));
    const bool is_written =
        std::fwrite(plot.svg.data(), 1, plot.svg.size(), file) == plot.svg.size();
    if (std::fclose(file) != 0 || !is_written) {
      return Internal("cannot write {}: {}", path, std::strerror(errno));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int RunAnalyze(std::span<const std::string_view> args) {
  AnalyzeFlags values;
  Flags flags;
  BindAnalyzeFlags(flags, values);
  if (const auto exit_code = ParseArguments(kAnalyzeText, flags, args, "LOG", values.log)) {
    return *exit_code;
  }
  if (const absl::Status status = CheckAnalyzeFlags(flags, values); !status.ok()) {
    return ReportUsage(kAnalyzeText, status);
  }
  const auto analysis = AnalyzeLog(values);
  if (!analysis.ok()) return ReportFailure(kAnalyzeText, MessageOf(analysis.status()));
  if (!values.svg.empty()) {
    const absl::Status status = WritePlots(*analysis, values.svg);
    if (!status.ok()) return ReportFailure(kAnalyzeText, MessageOf(status));
  }
  Print(stdout, values.json ? JsonLine(ToJson(*analysis)) : Describe(*analysis));
  return kExitOk;
}

}  // namespace incipit
