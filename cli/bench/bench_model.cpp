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
    "Measures how fast this machine computes a model, in this process, without a server or a\n"
    "network: the prefill of one prompt, and decoding with several numbers of sequences, each of\n"
    "which has its prompt computed before. Tokens are random; decoding draws the likeliest one.\n"
    "Each figure is the median of --repeat runs.\n"
    "\n"
    "Beside each stands how near it is to the machine's limit: the time that the multiply-adds "
    "take\n"
    "at the measured rate for the weights' type, or the bytes of weights, keys and values at the\n"
    "measured read bandwidth, whichever is longer, over the time taken.\n"
    "\n"
    "--json prints one object: weights, kv_dtype, prefill and decode (arrays of {sequences, "
    "tokens,\n"
    "tokens_per_s, gflops, gbytes_per_s, fraction_of_limit}), and machine {cpu, isa, threads,\n"
    "f32_gflops, bf16_gflops, int8_gops, read_gbytes_per_s}; null is a type without an "
    "instruction.\n"
    "\n"
    "Exit code: 0, 1 if the model cannot be loaded or computed, 2 if a flag is wrong.",
    "  incipit bench-model --model models/incipit-tiny\n"
    "  incipit bench-model --model DIR --prompt 512 --generate 64 --sequences 1,8,32 --json\n"};

constexpr int32_t kPositionsMaxFlag = 1 << 20;
constexpr int32_t kSequencesMaxFlag = 4096;
constexpr int32_t kDecodePromptDefault = 128;

// Those that the CPU backend stores.
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
      return InvalidArgument("\"{}\" is no list of numbers from 1 to {}, with commas in between",
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
  flags.String({"model", "DIR", "The model's folder."}, plan.folder);
  flags.Enum({"weights", "FORMAT", "auto: as stored; int8: rounded to eight bits while loading."},
             plan.weights, kWeightFormatNames);
  flags.Enum({"kv-dtype", "TYPE", "Keys and values. auto: f32 for f32 checkpoints, else bf16."},
             plan.kv_dtype, "auto", kKvDTypeNames);
  flags.Group("Work");
  flags.Integer({"prompt", "N", "Tokens of the prompt whose prefill is measured."}, plan.prompt,
                {1, kPositionsMaxFlag});
  flags.Integer({"step-tokens", "N", "Of a step of prefill at most; a longer prompt takes more."},
                plan.step_tokens, {1, kPositionsMaxFlag});
  flags.Integer({"generate", "N", "Steps of decoding, each one token of every sequence."},
                plan.generate, {1, kPositionsMaxFlag});
  flags.Custom(
      {"sequences", "N,N,...", "How many sequences decode together."},
      [&plan](std::string_view text) { return ParseSequences(text, plan.sequences); },
      [&plan] { return fmt::format("{}", fmt::join(plan.sequences, ",")); });
  flags.Integer({"decode-prompt", "N",
                 "Tokens of each sequence before decoding. By default those of --prompt, at most "
                 "128."},
                options.decode_prompt, {1, kPositionsMaxFlag});
  flags.Integer({"repeat", "N", "How often each is measured."}, plan.repeat, {1, 1000});
  flags.Group("Machine");
  flags.Integer({"threads", "N", "0: the CPUs that the process may use."}, plan.cpu.num_threads,
                {0, 4096});
  flags.Enum({"cpu-isa", "NAME", "Instruction set. auto: the machine's best."}, options.cpu_isa,
             "auto", kCpuIsaNames);
  flags.Group("Output");
  flags.Switch(
      {"profile", "", "Say what each operation takes, and how near it is to its own limit."},
      options.profile);
  flags.Switch({"json", "", "Print one JSON object."}, options.json);
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
    return ReportUsage(kBenchModelText, InvalidArgument("--model DIR is needed"));
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
