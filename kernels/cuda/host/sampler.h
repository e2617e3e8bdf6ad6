// Drives the sampling kernels (sample.h, score.h): packs rows, enqueues copies and kernels, and
// hands out what came back once the step has ended.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/host/sample_plan.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

// The greatest logits of the units of each row and their tokens, on the device.
struct BestOfUnits {
  const float* logits = nullptr;  // or none
  const int32_t* tokens = nullptr;
};

// Of two steps on their way, which share memory on the device: their stream keeps them apart.
class RowSampler {
 public:
  explicit RowSampler(int32_t num_sms) : num_sms_(num_sms) {}

  // Memory for rows of so many logits; whoever meets more later waits for the stream. REQUIRES:
  // nobody waits for results.
  absl::Status Reserve(int64_t vocab_size);
  int64_t vocab_size() const { return vocab_size_; }  // that there is memory for

  void BeginStep(size_t which);
  // Enqueue. What the arguments refer to stays valid until TakeResults. `sampled`: on the device,
  // gets the token of each row. `best`: of the logits, what StoreLogits has noted, if anything.
  absl::Status Sample(const SampleArgs& args, const BestOfUnits& best, int32_t* sampled,
                      size_t which, Stream& stream);
  absl::Status Score(const ScoreArgs& args, size_t which, Stream& stream);

  // In place of Sample: packs the samples of a step that has begun, for the caller to bring to the
  // device. None if they need memory, rounds, or more patches than a round takes (sampler.cpp);
  // then nothing has happened.
  std::optional<PackedSamples> Pack(const SampleArgs& args, size_t which);
  // Enqueues the kernel for them, wherever their header is; may be recorded for any such step.
  void LaunchPacked(const TensorView& logits, const SampleHeader* samples, const BestOfUnits& best,
                    int32_t groups_max, int32_t* sampled, Stream& stream);
  // Enqueues what brings their results.
  void FetchPacked(size_t which, Stream& stream);
  // REQUIRES: the step has ended.
  void TakeResults(size_t which);

  // Of one round; more rows take more rounds.
  static constexpr int32_t kRowsAtOnce = 256;
  // What PackedSamples may take, each array rounded up.
  static size_t PackedBytesMax();

 private:
  // Of one step on their way at once: with more, those before are waited for. Prompts with log
  // probabilities and long lists of penalties take many.
  static constexpr size_t kRoundsMax = 8;

  // As many rows as one packing takes.
  struct Round {
    Memory pinned_inputs, pinned_outputs;
    std::optional<SamplePlan> plan;
    std::variant<SampleArgs, ScoreArgs> args;
    size_t begin = 0, end = 0;
  };
  struct StepRounds {
    std::array<Round, kRoundsMax> rounds;
    size_t num_used = 0;
  };

  absl::StatusOr<Round*> NextRound(StepRounds& step, int64_t vocab_size, Stream& stream);
  // Packs all rows, round after round: inputs go to the device, `launch` enqueues a kernel for the
  // round and a number of rows, results come back.
  template <class Args>
  absl::Status EnqueueRounds(const Args& args, StepRounds& step, Stream& stream,
                             absl::FunctionRef<void(const Round&, int32_t)> launch);

  const int32_t num_sms_;
  int64_t vocab_size_ = 0;
  Memory inputs_, outputs_, originals_;
  std::array<StepRounds, 2> steps_;
};

}  // namespace incipit::cuda
