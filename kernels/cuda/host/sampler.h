// Runs the kernels Sample and Score for the rows of a step. Enqueues copies and kernels, and stores
// the results in the caller's arguments after the step has ended.
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

// Two device arrays: the largest of every 16 consecutive logits of each row, and the token ids of
// these logits.
struct BestOfUnits {
  const float* logits = nullptr;  // null: not available, so kernel Sample reads all logits
  const int32_t* tokens = nullptr;
};

// Samples tokens. Two steps may be in flight and use the same device memory, because one stream
// runs the steps one after the other.
class RowSampler {
 public:
  explicit RowSampler(int32_t num_sms) : num_sms_(num_sms) {}

  // Allocates memory for rows of `vocab_size` logits. Sample and Score call Reserve again if their
  // rows are longer. REQUIRES: TakeResults has been called for all earlier steps.
  absl::Status Reserve(int64_t vocab_size);
  // Returns the maximum length, in logits, of the rows for which memory is allocated.
  int64_t vocab_size() const { return vocab_size_; }

  void BeginStep(size_t which);
  // Enqueues the sampling of tokens for step `which` (0 or 1). The device stores the tokens in
  // `sampled`. `best` may hold the largest of every 16 logits, which StoreLogits has stored.
  // REQUIRES: the memory to which `args` refers stays valid until TakeResults.
  absl::Status Sample(const SampleArgs& args, const BestOfUnits& best, int32_t* sampled,
                      size_t which, Stream& stream);
  absl::Status Score(const ScoreArgs& args, size_t which, Stream& stream);

  // Packs the samples of a step for LaunchPacked, so that the caller can copy samples and step to
  // the device together. Returns nullopt if the samples need several launches or more memory; the
  // caller must then call Sample.
  std::optional<PackedSamples> Pack(const SampleArgs& args, size_t which);
  // Enqueues kernel Sample for packed samples (Pack). `samples` is the device address of the header
  // of the samples. In a recorded CUDA graph, the launch is valid for every step with at most
  // `groups_max` rows of logits.
  void LaunchPacked(const TensorView& logits, const SampleHeader* samples, const BestOfUnits& best,
                    int32_t groups_max, int32_t* sampled, Stream& stream);
  // Enqueues the copy of the results of packed samples (Pack) from the device to the host.
  void FetchPacked(size_t which, Stream& stream);
  // Stores the results of step `which` (0 or 1) in the arguments that the caller passed to Sample
  // and Score. REQUIRES: the device has finished the step.
  void TakeResults(size_t which);

  // Maximum number of rows in a round (one launch of a sampling kernel). More rows need several
  // rounds.
  static constexpr int32_t kRowsAtOnce = 256;
  // Returns the maximum size in bytes of the samples that Pack packs.
  static size_t PackedBytesMax();

 private:
  // Maximum number of rounds (launches of a sampling kernel) in flight for a step. If a step needs
  // more rounds, the sampler first waits until these rounds have finished.
  static constexpr size_t kRoundsMax = 8;

  // One launch of a sampling kernel: pinned memory for the inputs and outputs, and the range
  // [begin, end) of the rows that the kernel processes.
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
  // Processes all rows of `args` in one or more rounds (launches of a sampling kernel). Each round
  // copies the inputs to the device, calls launch(round, number of rows), and copies the results
  // back.
  template <class Args>
  absl::Status EnqueueRounds(const Args& args, StepRounds& step, Stream& stream,
                             absl::FunctionRef<void(const Round&, int32_t)> launch);

  const int32_t num_sms_;
  int64_t vocab_size_ = 0;
  Memory inputs_, outputs_, originals_;
  std::array<StepRounds, 2> steps_;
};

}  // namespace incipit::cuda
