// Runs the sampling kernels (Sample and Score) for the rows of logits of a step (batch). After the
// step has ended, stores the results in the memory to which the caller's arguments point.
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

// The largest of every 16 consecutive logits of a row, and the token id of each of these logits.
// The arrays are in device memory.
struct BestOfUnits {
  // The largest logits; null: not available, so kernel Sample must read all logits.
  const float* logits = nullptr;
  const int32_t* tokens = nullptr;
};

// Samples tokens, and computes the log probabilities of given tokens, for up to two steps (batches)
// in flight. REQUIRES: all calls use the same stream.
class RowSampler {
 public:
  explicit RowSampler(int32_t num_sms) : num_sms_(num_sms) {}

  // Allocates memory for rows of `vocab_size` logits. Sample and Score call Reserve again if a row
  // is longer. REQUIRES: TakeResults has been called for all earlier steps.
  absl::Status Reserve(int64_t vocab_size);
  // Returns the maximum number of logits of a row for which memory is allocated.
  int64_t vocab_size() const { return vocab_size_; }

  void BeginStep(size_t which);
  // Enqueues the sampling of tokens for step `range.which` (0 or 1: two steps may be in flight).
  // The device stores the tokens in `sampled`, at the indices that `range` describes. When Sample
  // has returned, the caller may change the arrays StepSample::counts of `args`. REQUIRES: all
  // other memory to which `args` refers stays valid until TakeResults.
  absl::Status Sample(const SampleArgs& args, const BestOfUnits& best, int32_t* sampled,
                      const SampledRange& range, Stream& stream);
  absl::Status Score(const ScoreArgs& args, size_t which, Stream& stream);

  // Packs the inputs for one call of LaunchPacked. Returns nullopt if one kernel launch is not
  // enough or more memory is needed; the caller must then call Sample instead.
  std::optional<PackedSamples> Pack(const SampleArgs& args, size_t which);
  // Launches kernel Sample for the inputs that Pack has packed and that the caller has copied to
  // the device address `samples`. A CUDA graph of this launch is valid for at most `groups_max`
  // rows of logits.
  void LaunchPacked(const TensorView& logits, const SampleHeader* samples, const BestOfUnits& best,
                    int32_t groups_max, int32_t* sampled, Stream& stream);
  // Enqueues the copy of the results of LaunchPacked to the host.
  void FetchPacked(size_t which, Stream& stream);
  // Stores the results of step `which` (0 or 1) in the memory to which the arguments of Sample and
  // Score point. REQUIRES: the device has finished the step.
  void TakeResults(size_t which);

  // Maximum number of rows of logits in one launch of a sampling kernel.
  static constexpr int32_t kRowsAtOnce = 256;
  // Returns the maximum size in bytes of the arrays that Pack returns.
  static size_t PackedBytesMax();

 private:
  // Maximum number of launches of sampling kernels in flight for a step (batch). If this number is
  // reached, the sampler waits for these launches before it makes another launch.
  static constexpr size_t kRoundsMax = 8;

  // One launch of a sampling kernel for the rows [begin, end) of the logits, with pinned memory for
  // the inputs and outputs of the kernel.
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
  // Enqueues rounds (kernel launches and their copies) until all rows of `args` are processed.
  // pack(plan, begin) packs the rows [begin, end) of a round and returns `end`. launch(round,
  // number of rows) launches the kernel.
  template <class Args>
  absl::Status EnqueueRounds(const Args& args, StepRounds& step, Stream& stream,
                             absl::FunctionRef<size_t(SamplePlan&, size_t)> pack,
                             absl::FunctionRef<void(const Round&, int32_t)> launch);

  const int32_t num_sms_;
  int64_t vocab_size_ = 0;
  Memory inputs_, outputs_, originals_;
  std::array<StepRounds, 2> steps_;
};

}  // namespace incipit::cuda
