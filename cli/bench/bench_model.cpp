#include "cli/bench/bench_model.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <system_error>

#include "base/flags.h"
#include "base/status.h"
#include "cli/bench/bench_model_report.h"
#include "cli/bench/bench_model_run.h"
#include "cli/client/terminal.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "kernels/cpu/cpu_isa.h"

namespace incipit {
namespace {

constexpr CommandText kBenchModelText = {
    "bench-model", "--model DIR [flags]",
    "Measures how fast this machine computes a model, in one process, without a server or a\n"
    "network. The command measures the prefill of one prompt, and the decode of several numbers\n"
    "of sequences. Prompts are random tokens, and decode samples greedily. Each figure is the\n"
    "median of --repeat runs.\n"
    "\n"
    "The column \"of limit\" is the minimum time that this machine needs, divided by the measured\n"
    "time. The minimum time is the time for all multiply-adds or the time for reading all\n"
    "weights, keys and values, whichever is longer, at the maximum rates of this machine.\n"
    "\n"
    "--json prints one object with the keys weights, kv_dtype, prefill, decode and machine.\n"
    "prefill and decode are arrays of {sequences, tokens, tokens_per_s, gflops, gbytes_per_s,\n"
    "fraction_of_limit}. machine is {cpu, isa, threads, f32_gflops, bf16_gflops, int8_gops,\n"
    "read_gbytes_per_s}; a rate is null if the machine has no instruction for the type.\n"
    "\n"
    "Exit codes: 0 success, 1 the model cannot be loaded or computed, 2 a flag is wrong.",
    "  incipit bench-model --model models/incipit-tiny\n"
    "  incipit bench-model --model DIR --prompt 512 --generate 64 --sequences 1,8,32 --json\n"};

constexpr int32_t kPositionsMaxFlag = 1 << 20;
constexpr int32_t kSequencesMaxFlag = 4096;
constexpr int32_t kDecodePromptDefault = 128;

// The element types of keys and values that the CPU backend supports.
constexpr EnumName<DType> kKvDTypeNames[] = {{DType::kF32, NameOf(DType::kF32)},
                                             {DType::kBF16, NameOf(DType::kBF16)}};

struct BenchModelOptions {
  BenchModelPlan plan;
  std::optional<int32_t> decode_prompt;
  std::optional<CpuIsa> cpu_isa;
  bool profile = false, json = false;
};

absl::Status ParseSequences(std::string_view text, std::vector<int32_t>& sequences) {
  std::vector<int32_t> parsed;
  const char* const end = text.data() + text.size();
  for (const char* begin = text.data();; ++begin) {
    int32_t value = 0;
    const auto [next, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || value < 1 || value > kSequencesMaxFlag ||
        (next != end && *next != ',')) {
      return InvalidArgument("\"{0}\" is not a list of numbers from 1 to {1}, separated by commas",
                             text.substr(0, 80), kSequencesMaxFlag);
    }
    parsed.push_back(value);
    if (next == end) break;
    begin = next;
  }
  sequences = std::move(parsed);
  return absl::OkStatus();
}

void Bind(Flags& flags, BenchModelOptions& options) {
  BenchModelPlan& plan = options.plan;
  flags.Group("Model");
  flags.String({"model", "DIR", "Model folder."}, plan.folder);
  flags.Enum({"weights", "FORMAT",
              "Format of the weights in memory. auto: the format in the model files; int8: rounded "
              "to 8 bits while loading."},
             plan.weights, kWeightFormatNames);
  flags.Enum({"kv-dtype", "TYPE",
              "Element type of keys and values. auto: f32 for f32 checkpoints, otherwise bf16."},
             plan.kv_dtype, "auto", kKvDTypeNames);
  flags.Group("Work");
  flags.Integer({"prompt", "N", "Number of prompt tokens in the prefill measurement."}, plan.prompt,
                {1, kPositionsMaxFlag});
  flags.Integer(
      {"step-tokens", "N",
       "Maximum number of tokens in a prefill step; a longer prompt needs several steps."},
      plan.step_tokens, {1, kPositionsMaxFlag});
  flags.Integer(
      {"generate", "N", "Number of decode steps; each step computes one token of every sequence."},
      plan.generate, {1, kPositionsMaxFlag});
  flags.Custom(
      {"sequences", "N,N,...",
       "Numbers of sequences that decode together. The command measures decode once for each "
       "number."},
      [&plan](std::string_view text) { return ParseSequences(text, plan.sequences); },
      [&plan] { return fmt::format("{}", fmt::join(plan.sequences, ",")); });
  flags.Integer({"decode-prompt", "N",
                 "Number of tokens of each sequence before the first decode step. Default: the "
                 "value of --prompt, but at most 128."},
                options.decode_prompt, {1, kPositionsMaxFlag});
  flags.Integer({"repeat", "N", "Number of runs of each measurement."}, plan.repeat, {1, 1000});
  flags.Group("Machine");
  flags.Integer(
      {"threads", "N", "Number of CPU threads. 0: the number of CPUs that the process may use."},
      plan.cpu.num_threads, {0, 4096});
  flags.Enum(
      {"cpu-isa", "NAME", "CPU instruction set. auto: the fastest set that this machine has."},
      options.cpu_isa, "auto", kCpuIsaNames);
  flags.Group("Output");
  flags.Switch({"profile", "",
                "Also report two percentages for each operation: its share of the time, and the "
                "minimum time that this machine needs for the operation, divided by the measured "
                "time."},
               options.profile);
  flags.Switch({"json", "", "Print the results as one JSON object."}, options.json);
}

void Complete(BenchModelOptions& options) {
  BenchModelPlan& plan = options.plan;
  plan.decode_prompt = options.decode_prompt.value_or(std::min(plan.prompt, kDecodePromptDefault));
  if (options.cpu_isa) plan.cpu.isa = NameOf(*options.cpu_isa);
}

}  // namespace

int RunBenchModel(std::span<const std::string_view> args) {
  BenchModelOptions options;
  Flags flags;
  Bind(flags, options);
  if (const auto exit_code = ParseArguments(kBenchModelText, flags, args)) return *exit_code;
  if (options.plan.folder.empty()) {
    return ReportUsage(kBenchModelText, InvalidArgument("--model DIR is missing"));
  }
  Complete(options);
  const bool shows_progress = IsTerminal(stderr);
  const auto result = BenchModel(options.plan, [shows_progress](std::string_view what) {
    if (shows_progress) Print(stderr, fmt::format("\r\x1b[K{}", what));
  });
  if (shows_progress) Print(stderr, "\r\x1b[K");
  if (absl::IsOutOfRange(result.status())) return ReportUsage(kBenchModelText, result.status());
  if (!result.ok()) return ReportFailure(kBenchModelText, MessageOf(result.status()));
  Print(stdout, options.json ? JsonLine(ToJson(*result, options.profile))
                             : Describe(*result, options.profile));
  return kExitOk;
}

}  // namespace incipit
