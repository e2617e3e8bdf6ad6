#include "kernels/cuda/host/sampler.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/status.h"
#include "kernels/checks.h"
#include "kernels/cuda/device/sampling/sample.h"
#include "kernels/cuda/device/sampling/score.h"

namespace incipit::cuda {
namespace {

// Maximum number of changed logits, and maximum number of returned likeliest tokens, in one launch
// of a sampling kernel.
constexpr int32_t kPatchesAtOnce = 1 << 16, kTopsAtOnce = 1 << 14;

}  // namespace

size_t RowSampler::PackedBytesMax() {
  return kRowsAtOnce * (sizeof(SampleGroup) + sizeof(SampleEntry)) +
         kPatchesAtOnce * sizeof(LogitPatch);
}

void RowSampler::BeginStep(size_t which) { steps_[which].num_used = 0; }

absl::Status RowSampler::Reserve(int64_t vocab_size) {
  if (vocab_size <= vocab_size_) return absl::OkStatus();
  vocab_size_ = 0;
  const SampleLayout layout(
      {.rows = kRowsAtOnce,
       .patches = std::max(kPatchesAtOnce, static_cast<int32_t>(vocab_size) + 1),
       .tops = kTopsAtOnce});
  const auto allocate = [](Place place, size_t bytes, Memory& to) -> absl::Status {
    INCIPIT_ASSIGN_OR_RETURN(to, Memory::Allocate(place, bytes));
    return absl::OkStatus();
  };
  const size_t in = layout.max_input_bytes(), out = layout.max_output_bytes();
  INCIPIT_RETURN_IF_ERROR(allocate(Place::kDevice, in, inputs_));
  INCIPIT_RETURN_IF_ERROR(allocate(Place::kDevice, out, outputs_));
  INCIPIT_RETURN_IF_ERROR(allocate(Place::kDevice, layout.original_bytes(), originals_));
  for (StepRounds& step : steps_) {
    for (Round& round : step.rounds) {
      INCIPIT_RETURN_IF_ERROR(allocate(Place::kPinned, in, round.pinned_inputs));
      INCIPIT_RETURN_IF_ERROR(allocate(Place::kPinned, out, round.pinned_outputs));
      round.plan.emplace(layout.capacity(), round.pinned_inputs.as<std::byte>(),
                         round.pinned_outputs.as<std::byte>());
    }
  }
  vocab_size_ = vocab_size;
  return absl::OkStatus();
}

absl::StatusOr<RowSampler::Round*> RowSampler::NextRound(StepRounds& step, int64_t vocab_size,
                                                         Stream& stream) {
  const bool is_held = vocab_size <= vocab_size_;
  if (!is_held || step.num_used == kRoundsMax) {
    INCIPIT_RETURN_IF_ERROR(stream.Wait());
    for (size_t which = 0; which < steps_.size(); ++which) TakeResults(which);
    INCIPIT_RETURN_IF_ERROR(Reserve(vocab_size));
  }
  return &step.rounds[step.num_used++];
}

template <class Args>
absl::Status RowSampler::EnqueueRounds(const Args& args, StepRounds& step, Stream& stream,
                                       absl::FunctionRef<size_t(SamplePlan&, size_t)> pack,
                                       absl::FunctionRef<void(const Round&, int32_t)> launch) {
  for (size_t begin = 0; begin < args.logits_rows.size();) {
    INCIPIT_ASSIGN_OR_RETURN(Round* const round, NextRound(step, args.logits.cols, stream));
    round->args = args;
    round->begin = begin;
    round->end = begin = pack(*round->plan, begin);
    stream.Copy(inputs_.data(), round->pinned_inputs.data(), round->plan->input_bytes());
    launch(*round, static_cast<int32_t>(round->end - round->begin));
    stream.Copy(round->pinned_outputs.data(), outputs_.data(), round->plan->output_bytes());
  }
  return absl::OkStatus();
}

absl::Status RowSampler::Sample(const SampleArgs& args, const BestOfUnits& best, int32_t* sampled,
                                const SampledRange& range, Stream& stream) {
  CheckSampleArgs(args);
  const auto pack = [&](SamplePlan& plan, size_t begin) { return plan.Pack(args, begin, range); };
  const auto launch = [&](const Round&, int32_t count) {
    LaunchPacked(args.logits, inputs_.as<SampleHeader>(), best, count, sampled, stream);
  };
  return EnqueueRounds(args, steps_[range.which], stream, pack, launch);
}

void RowSampler::LaunchPacked(const TensorView& logits, const SampleHeader* samples,
                              const BestOfUnits& best, int32_t groups_max, int32_t* sampled,
                              Stream& stream) {
  const SampleLayout& layout = steps_.front().rounds.front().plan->layout();
  Launch<cuda::Sample<SampleShape>>(stream, {.num_blocks = std::min(groups_max, num_sms_)},
                                    {.logits = static_cast<float*>(logits.data),
                                     .vocab_size = static_cast<int32_t>(logits.cols),
                                     .samples = samples,
                                     .best_logits = best.logits,
                                     .best_tokens = best.tokens,
                                     .originals = originals_.as<float>(),
                                     .sampled = sampled,
                                     .outputs = layout.OutputsAt(outputs_.as<std::byte>())});
}

std::optional<PackedSamples> RowSampler::Pack(const SampleArgs& args, size_t which) {
  CheckSampleArgs(args);
  StepRounds& step = steps_[which];
  INCIPIT_CHECK(step.num_used == 0);
  if (args.logits.cols > vocab_size_ || args.samples.empty()) return std::nullopt;
  Round& round = step.rounds.front();
  if (round.plan->Pack(args, 0, {.which = which}) < args.samples.size()) return std::nullopt;
  const PackedSamples samples = round.plan->samples();
  if (samples.patches.size() > kPatchesAtOnce * sizeof(LogitPatch)) return std::nullopt;
  round.args = args;
  round.begin = 0;
  round.end = args.samples.size();
  step.num_used = 1;
  return samples;
}

void RowSampler::FetchPacked(size_t which, Stream& stream) {
  StepRounds& step = steps_[which];
  INCIPIT_CHECK(step.num_used == 1);
  const Round& round = step.rounds.front();
  stream.Copy(round.pinned_outputs.data(), outputs_.data(), round.plan->output_bytes());
}

absl::Status RowSampler::Score(const ScoreArgs& args, size_t which, Stream& stream) {
  CheckScoreArgs(args);
  const auto pack = [&](SamplePlan& plan, size_t begin) { return plan.Pack(args, begin); };
  const auto launch = [&](const Round& round, int32_t count) {
    const SampleLayout& layout = round.plan->layout();
    Launch<cuda::Score<SampleShape>>(stream, {.num_blocks = std::min(count, 2 * num_sms_)},
                                     {.logits = static_cast<const float*>(args.logits.data),
                                      .vocab_size = static_cast<int32_t>(args.logits.cols),
                                      .inputs = layout.ScoresAt(inputs_.as<std::byte>()),
                                      .outputs = layout.OutputsAt(outputs_.as<std::byte>())});
  };
  return EnqueueRounds(args, steps_[which], stream, pack, launch);
}

void RowSampler::TakeResults(size_t which) {
  StepRounds& step = steps_[which];
  for (size_t i = 0; i < step.num_used; ++i) {
    const Round& round = step.rounds[i];
    std::visit([&](const auto& args) { round.plan->Unpack(args, round.begin, round.end); },
               round.args);
  }
  step.num_used = 0;
}

}  // namespace incipit::cuda
