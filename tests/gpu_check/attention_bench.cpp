// Measures the attention of one layer of the 8B model shape, for decode and for prefill. The pages
// of 16 tokens are in no order.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kernels/cuda/host/attention_kernels.h"
#include "kernels/cuda/host/step_memory.h"
#include "tests/gpu_check/device_bench.h"

namespace incipit::cuda {
namespace {

constexpr int32_t kNumHeads = 32, kNumKvHeads = 8, kHeadDim = 128, kPageSize = 16;
constexpr double kBytesPerPosition = 2.0 * kNumKvHeads * kHeadDim * 2;

// An attention step for the last `tokens` tokens of `context` positions, in each of `sequences`
// sequences.
struct Case {
  int32_t sequences = 1, context = 0, tokens = 1;
};

// The arrays of a step. The pool has exactly as many pages as the sequences need.
struct StepArrays {
  explicit StepArrays(const Case& shape) {
    const int32_t pages_each = (shape.context + kPageSize - 1) / kPageSize;
    num_pages = pages_each * shape.sequences;
    for (int32_t s = 0; s < shape.sequences; ++s) {
      for (int32_t i = shape.context - shape.tokens; i < shape.context; ++i) {
        tokens.push_back(0);
        positions.push_back(i);
      }
      token_begin.push_back(static_cast<int32_t>(tokens.size()));
      block_begin.push_back((s + 1) * pages_each);
    }
    // Puts each page into the list once. Consecutive pages of the list are far apart in memory.
    int32_t stride = num_pages / 2 + 1;
    while (std::gcd(stride, num_pages) != 1) ++stride;
    for (int64_t i = 0; i < num_pages; ++i) {
      blocks.push_back(BlockId{static_cast<int32_t>(i * stride % num_pages)});
    }
  }
  Step step() const {
    return {.tokens = tokens,
            .positions = positions,
            .token_begin = token_begin,
            .block_begin = block_begin,
            .blocks = blocks};
  }

  int32_t num_pages = 0;
  std::vector<TokenId> tokens;
  std::vector<int32_t> positions, token_begin = {0}, block_begin = {0};
  std::vector<BlockId> blocks;
};

class AttentionBench {
 public:
  explicit AttentionBench(DeviceBench& bench) : bench_(bench) {}

  absl::Status Run() {
    const auto pool = static_cast<size_t>(bench_.Size(int64_t{1088} << 20, int64_t{4} << 20));
    INCIPIT_ASSIGN_OR_RETURN(pool_, bench_.Random(pool));
    const auto rows = static_cast<size_t>(bench_.Size(8192, 160)) * kNumHeads * kHeadDim;
    INCIPIT_ASSIGN_OR_RETURN(query_, bench_.Random(rows * sizeof(dev::bf16)));
    INCIPIT_ASSIGN_OR_RETURN(out_, Memory::Allocate(Place::kDevice, rows * sizeof(dev::bf16)));
    const std::vector<Case> cases =
        bench_.is_smoke() ? std::vector<Case>{{.sequences = 2, .context = 40},
                                              {.sequences = 1, .context = 40, .tokens = 40}}
                          : std::vector<Case>{{.sequences = 8, .context = 16384},
                                              {.sequences = 8, .context = 4096},
                                              {.sequences = 1, .context = 32768},
                                              {.sequences = 64, .context = 640},
                                              {.sequences = 1, .context = 1024},
                                              {.sequences = 1, .context = 8192, .tokens = 8192},
                                              {.sequences = 1, .context = 2048, .tokens = 2048},
                                              {.sequences = 1, .context = 8192, .tokens = 512}};
    for (const Case& shape : cases) INCIPIT_RETURN_IF_ERROR(MeasureCase(shape));
    return absl::OkStatus();
  }

 private:
  absl::Status Reserve(const StepArrays& arrays) {
    StepMemory step;
    INCIPIT_RETURN_IF_ERROR(
        step.Reserve({.tokens_max = static_cast<int32_t>(arrays.tokens.size()),
                      .sequences_max = static_cast<int32_t>(arrays.token_begin.size()),
                      .blocks_max = static_cast<int64_t>(arrays.blocks.size()),
                      .samples_max = 1},
                     {.page_size = kPageSize, .group = kNumHeads / kNumKvHeads, .windows = {0}}));
    step_ = std::move(step);
    if (!step_.Upload(arrays.step(), {}, std::nullopt, 0, bench_.stream())) {
      return Internal("no plan for a step");
    }
    INCIPIT_RETURN_IF_ERROR(bench_.stream().Wait());
    const AttentionPlan& plan = step_.plan();
    const auto partial_rows = static_cast<size_t>(plan.max_partial_rows()) * kNumKvHeads;
    INCIPIT_ASSIGN_OR_RETURN(
        sums_, Memory::Allocate(Place::kDevice, partial_rows * kHeadDim * sizeof(float)));
    INCIPIT_ASSIGN_OR_RETURN(stats_,
                             Memory::Allocate(Place::kDevice, partial_rows * 2 * sizeof(float)));
    INCIPIT_ASSIGN_OR_RETURN(
        arrivals_, Memory::Allocate(Place::kDevice, static_cast<size_t>(plan.max_decode_tiles()) *
                                                        kNumKvHeads * sizeof(uint32_t)));
    const KvPoolShape shape = {.num_layers = 1,
                               .num_blocks = arrays.num_pages,
                               .block_size = kPageSize,
                               .num_kv_heads = kNumKvHeads,
                               .head_dim = kHeadDim,
                               .dtype = DType::kBF16};
    INCIPIT_ASSIGN_OR_RETURN(
        scratch_,
        Memory::Allocate(Place::kDevice, AttentionScratchBytes(shape, bench_.device().num_sms)));
    return absl::OkStatus();
  }

  absl::Status MeasureCase(const Case& shape) {
    const StepArrays arrays(shape);
    INCIPIT_RETURN_IF_ERROR(Reserve(arrays));
    const KvLayout layout = {
        .page_size = kPageSize, .num_kv_heads = kNumKvHeads, .head_dim = kHeadDim};
    const int64_t layer = layout.LayerSize(arrays.num_pages);
    const double kv = static_cast<double>(shape.sequences) * shape.context * kBytesPerPosition;
    const auto held =
        static_cast<int32_t>(pool_.byte_size() / (static_cast<size_t>(layer) * sizeof(dev::bf16)));
    const int32_t turns = std::min(bench_.TurnsFor(kv), held);
    if (turns < 1) return Internal("the pool has no room for {} pages", arrays.num_pages);
    // Number of (row, position) pairs in which the row attends to the position.
    const double pairs = static_cast<double>(shape.sequences) * shape.tokens *
                         (shape.context - (shape.tokens - 1) / 2.0);
    const bool decodes = shape.tokens == 1;
    const Work work = {
        .name = fmt::format("{} attention, {} x {}{}", decodes ? "decode" : "prefill",
                            shape.sequences, shape.context,
                            decodes || shape.tokens == shape.context
                                ? ""
                                : fmt::format(", the last {}", shape.tokens)),
        .bytes = kv + 2.0 * shape.sequences * shape.tokens * kNumHeads * kHeadDim * 2,
        .flops = pairs * 4 * kNumHeads * kHeadDim};
    return bench_.Measure(work, turns, [&](int32_t turn) {
      LaunchAttention(bench_.stream(), bench_.device().num_sms, step_.host_header().lists[0],
                      {.step = step_.header(),
                       .list = 0,
                       .window = 0,
                       .query = query_.as<dev::bf16>(),
                       .pool = pool_.as<dev::bf16>() + turn * layer,
                       .out = out_.as<dev::bf16>(),
                       .num_heads = kNumHeads,
                       .num_kv_heads = kNumKvHeads,
                       .scale = 1 / std::sqrt(static_cast<float>(kHeadDim)),
                       .page_size = kPageSize,
                       .head_dim = kHeadDim,
                       .partial_sums = sums_.as<float>(),
                       .partial_stats = stats_.as<float>(),
                       .arrivals = arrivals_.as<uint32_t>(),
                       .scratch = scratch_.data()});
    });
  }

  DeviceBench& bench_;
  Memory pool_, query_, out_, sums_, stats_, arrivals_, scratch_;
  StepMemory step_;
};

}  // namespace

absl::Status MeasureAttention(DeviceBench& bench) { return AttentionBench(bench).Run(); }

}  // namespace incipit::cuda
