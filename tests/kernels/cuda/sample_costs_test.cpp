// Tests how many bytes of logits the sampling kernels read, and how they access memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/cuda/device/sampling/sample.h"
#include "kernels/cuda/device/sampling/score.h"
#include "kernels/emulator/run.h"
#include "tests/kernels/cuda/sample_problem.h"

namespace incipit::cuda {
namespace {

// Returns 32,000 logits that are spread like the logits of a model.
std::vector<float> WideLogits() {
  std::vector<float> logits(32000);
  for (size_t v = 0; v < logits.size(); ++v) {
    logits[v] = 6 * std::sin(0.37f * static_cast<float>(v) * static_cast<float>(v % 101));
  }
  return logits;
}

// Returns the memory accesses of one sample from a row of WideLogits().
emulator::Report CostOf(const Request& request, bool has_best = false) {
  const std::vector<float> logits = WideLogits();
  Rows rows({logits});
  const StepSample sample = request.sample(0);
  TokenId token = -1;
  RowStatus status = RowStatus::kOk;
  Logprobs logprobs;
  const SampleArgs args = {.logits = rows.view(),
                           .samples = {&sample, 1},
                           .logits_rows = {&request.logits_row, 1},
                           .tokens = {&token, 1},
                           .status = {&status, 1},
                           .logprobs = &logprobs};
  const SampleLayout layout(CapacityFor(1, logits.size()));
  Block inputs(layout.max_input_bytes()), outputs(layout.max_output_bytes());
  std::vector<float> originals(static_cast<size_t>(layout.capacity().patches));
  // In the order of SampledIndex.
  std::vector<TokenId> sampled = {-7, request.pending.value_or(-7)};
  SamplePlan plan(layout.capacity(), inputs.data(), outputs.data());
  plan.Pack(args, 0, {});
  Best best(rows, 1);
  return emulator::Run<Sample<SampleShape>>({.count_accesses = true},
                                            {.logits = rows.data(),
                                             .vocab_size = 32000,
                                             .samples = SamplesOf(inputs),
                                             .best_logits = has_best ? best.logits() : nullptr,
                                             .best_tokens = has_best ? best.tokens() : nullptr,
                                             .originals = originals.data(),
                                             .sampled = sampled.data(),
                                             .outputs = layout.OutputsAt(outputs.data())});
}

TEST(SampleCostsTest, ReadsARowAsOftenAsItSaysAndSideBySide) {
  struct Case {
    float temperature = 1;
    int32_t top_k = 0;
    float top_p = 1;
    int32_t num_logprobs = -1;
    double reads = 0;
    bool has_best = false;
  };
  for (const Case& rules :
       {Case{.temperature = 0, .reads = 1},
        Case{.temperature = 0, .reads = 0.0625, .has_best = true},
        Case{.temperature = 0, .num_logprobs = 0, .reads = 2, .has_best = true}, Case{.reads = 2},
        Case{.top_k = 40, .reads = 3}, Case{.top_k = 40, .top_p = 0.9f, .reads = 3},
        Case{.top_p = 0.1f, .reads = 4}, Case{.num_logprobs = 0, .reads = 3},
        Case{.num_logprobs = 20, .reads = 4}}) {
    SCOPED_TRACE(fmt::format("reads {}", rules.reads));
    Request request;
    request.params.temperature = rules.temperature;
    request.params.top_k = rules.top_k;
    request.params.top_p = rules.top_p;
    request.params.num_logprobs = rules.num_logprobs;
    const emulator::Report report = CostOf(request, rules.has_best);
    EXPECT_EQ(report.fault, "");
    const double bytes = 4.0 * 32000 * rules.reads;
    EXPECT_NEAR(static_cast<double>(report.load_bytes), bytes, 0.02 * bytes);
    for (const emulator::SiteCounts& site : report.sites) {
      SCOPED_TRACE(fmt::format("{}:{}", site.file, site.line));
      if (site.kind == emulator::AccessKind::kGlobalLoad && site.lane_bytes == 16) {
        EXPECT_EQ(site.sectors, site.fewest_sectors);
      }
      // Atomic additions to a histogram may have any number of bank conflicts, because their
      // addresses depend on the logits. Stores to a list of tokens may have a few, because the list
      // is short.
      if (site.kind == emulator::AccessKind::kSharedAtomic) continue;
      EXPECT_LE(site.bank_conflicts, site.kind == emulator::AccessKind::kSharedStore ? 64 : 0);
    }
  }
}

TEST(SampleCostsTest, ReadsARowWithPatchesAsOftenAsItSays) {
  for (const auto& [num_logprobs, reads] : {std::pair{-1, 3}, {0, 5}, {20, 6}}) {
    SCOPED_TRACE(fmt::format("reads {}", reads));
    Request request;
    request.params.num_logprobs = num_logprobs;
    request.params.repetition_penalty = 1.1f;
    request.counts = {{.token = 7, .in_prompt = 1, .in_output = 2}};
    request.pending = 9;
    const emulator::Report report = CostOf(request);
    EXPECT_EQ(report.fault, "");
    const double bytes = 4.0 * 32000 * reads;
    EXPECT_NEAR(static_cast<double>(report.load_bytes), bytes, 0.02 * bytes);
  }
}

TEST(SampleCostsTest, ScoreReadsARowAsOftenAsItSays) {
  Rows rows({WideLogits()});
  for (const auto& [num_top, reads] : {std::pair{0, 2}, {20, 3}}) {
    SCOPED_TRACE(fmt::format("{} of the likeliest", num_top));
    const StepScore asked = {.target = 5, .num_top = num_top};
    const int32_t row = 0;
    RowStatus status = RowStatus::kOk;
    Logprobs logprobs;
    const SampleLayout layout(CapacityFor(1, rows.vocab()));
    Block inputs(layout.max_input_bytes()), outputs(layout.max_output_bytes());
    SamplePlan plan(layout.capacity(), inputs.data(), outputs.data());
    plan.Pack(ScoreArgs{rows.view(), {&asked, 1}, {&row, 1}, {&status, 1}, &logprobs}, 0);
    const auto report = emulator::Run<Score<SampleShape>>(
        {.count_accesses = true}, {.logits = rows.data(),
                                   .vocab_size = static_cast<int32_t>(rows.vocab()),
                                   .inputs = layout.ScoresAt(inputs.data()),
                                   .outputs = layout.OutputsAt(outputs.data())});
    EXPECT_EQ(report.fault, "");
    const double bytes = 4.0 * static_cast<double>(rows.vocab()) * reads;
    EXPECT_NEAR(static_cast<double>(report.load_bytes), bytes, 0.02 * bytes);
    for (const emulator::SiteCounts& site : report.sites) {
      // As for Sample.
      if (site.kind == emulator::AccessKind::kSharedAtomic) continue;
      EXPECT_LE(site.bank_conflicts, site.kind == emulator::AccessKind::kSharedStore ? 64 : 0)
          << site.file << ":" << site.line;
    }
  }
}

}  // namespace
}  // namespace incipit::cuda
