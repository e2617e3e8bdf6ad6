#include "cli/bench/workload.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/status.h"

namespace incipit {
namespace {

// The lengths follow the published descriptions of the workloads. docs/workloads.md lists all
// lengths.
constexpr std::array<Workload, 9> kWorkloads = {{
    {.name = "chatbot",
     .summary = "a system prompt of 512 tokens and short questions",
     .published_hit_ratio = "92-97 %",
     .shared_tokens = 512,
     .message = {16, 48},
     .output_tokens = 64},
    {.name = "multi-turn",
     .summary = "a system prompt and a history that grows from 1,000 to 4,000 tokens",
     .published_hit_ratio = "80-95 %",
     .shared_tokens = 512,
     .document = {512, 512},
     .message = {64, 192},
     .output_tokens = 128,
     .num_turns = 10,
     .keeps_output = true},
    {.name = "rag",
     .summary = "256 shared tokens and 2,000 unique tokens",
     .published_hit_ratio = "25-40 %",
     .shared_tokens = 256,
     .document = {2000, 2000},
     .message = {16, 80},
     .output_tokens = 64},
    {.name = "rag-stable",
     .summary = "256 shared tokens, one of 8 sets of documents, and a question",
     .published_hit_ratio = "88-94 %",
     .shared_tokens = 256,
     .document = {2000, 2000},
     .num_topics = 8,
     .message = {16, 80},
     .output_tokens = 64},
    {.name = "code-completion",
     .summary = "files of 500 to 8,000 tokens, each with 5 edits near its end",
     .published_hit_ratio = "15-35 %",
     .document = {500, 8000},
     .edit = {16, 256},
     .output_tokens = 32,
     .num_turns = 5},
    {.name = "batch-summarisation",
     .summary = "an instruction of 64 tokens and unique documents",
     .published_hit_ratio = "8-15 %",
     .shared_tokens = 64,
     .document = {600, 1000},
     .output_tokens = 96},
    {.name = "random",
     .summary = "prompts that share nothing",
     .published_hit_ratio = "0-2 %",
     .message = {512, 512},
     .output_tokens = 32},
    {.name = "agent",
     .summary = "a tool schema of 1,500 tokens and a log that grows by 100 to 400 tokens a turn",
     .published_hit_ratio = "",
     .shared_tokens = 1500,
     .message = {50, 350},
     .output_tokens = 50,
     .num_turns = 10,
     .keeps_output = true},
    {.name = "long-document",
     .summary = "documents of 8,000 tokens, each with 10 questions",
     .published_hit_ratio = "",
     .document = {8000, 8000},
     .message = {16, 48},
     .output_tokens = 64,
     .num_turns = 10,
     .keeps_output = true},
}};

int32_t ScaledLength(int32_t length, double factor) {
  if (length == 0) return 0;
  // The small summand corrects rounding errors: 0.29 * 100 must become 29, not 28.
  return std::max(static_cast<int32_t>(std::floor(length * factor + 1e-9)), 1);
}

LengthRange ScaledRange(LengthRange range, double factor) {
  return {ScaledLength(range.min, factor), ScaledLength(range.max, factor)};
}

}  // namespace

std::span<const Workload> Workloads() { return kWorkloads; }

absl::StatusOr<Workload> FindWorkload(std::string_view name) {
  const auto found = std::ranges::find(kWorkloads, name, &Workload::name);
  if (found != kWorkloads.end()) return *found;
  std::string names;
  for (const Workload& workload : kWorkloads) {
    if (!names.empty()) names += ", ";
    names += workload.name;
  }
  return InvalidArgument("there is no workload \"{}\"; the workloads are {}", name.substr(0, 80),
                         names);
}

int64_t LongestTokens(const Workload& workload) {
  const int64_t num_outputs = workload.keeps_output ? workload.num_turns : 1;
  return int64_t{workload.shared_tokens} + workload.document.max +
         int64_t{workload.num_turns} * workload.message.max + num_outputs * workload.output_tokens;
}

Workload Scaled(Workload workload, double factor) {
  workload.shared_tokens = ScaledLength(workload.shared_tokens, factor);
  workload.document = ScaledRange(workload.document, factor);
  workload.message = ScaledRange(workload.message, factor);
  workload.edit = ScaledRange(workload.edit, factor);
  workload.output_tokens = ScaledLength(workload.output_tokens, factor);
  return workload;
}

absl::StatusOr<FittedWorkload> FitWorkload(const Workload& workload, double scale,
                                           int64_t context_tokens) {
  FittedWorkload fitted = {Scaled(workload, scale), scale};
  if (LongestTokens(fitted.workload) <= context_tokens) return fitted;
  fitted.scale = static_cast<double>(context_tokens) / static_cast<double>(LongestTokens(workload));
  fitted.workload = Scaled(workload, fitted.scale);
  if (LongestTokens(fitted.workload) > context_tokens) {
    return InvalidArgument(
        "the context of the model has {} tokens, too few for the workload {} with {} turns",
        context_tokens, workload.name, workload.num_turns);
  }
  return fitted;
}

}  // namespace incipit
