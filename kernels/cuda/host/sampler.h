// Runs the sampling kernels (sample.h, score.h): packs rows, enqueues copies and kernels, and
// stores the results in the caller's arguments after the step has ended.
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

// Device arrays with the largest logit of every 16 consecutive tokens (a unit) of each row, and the
// token id of this logit.
struct BestOfUnits {
  const float* logits = nullptr;  // null: the largest logits are not available
  const int32_t* tokens = nullptr;
};

// Samples tokens for up to two steps in flight. Both steps use the same device memory, one after
// the other, because their work is on one stream.
class RowSampler {
 public:
  explicit RowSampler(int32_t num_sms) : num_sms_(num_sms) {}

  // Allocates memory for rows of `vocab_size` logits. A later Sample or Score call with longer rows
  // waits for the stream and allocates again. REQUIRES: no step has results that TakeResults has
  // not taken.
  absl::Status Reserve(int64_t vocab_size);
  // Returns the maximum number of logits of a row for which memory is allocated.
  int64_t vocab_size() const { return vocab_size_; }

  void BeginStep(size_t which);
  // Enqueues sampling for the step in flight with index `which`. The memory that the arguments
  // refer to must stay valid until TakeResults. `sampled`: device memory that receives the token of
  // each sample. `best`: the largest logits that StoreLogits stored for these rows, if available.
  absl::Status Sample(const SampleArgs& args, const BestOfUnits& best, int32_t* sampled,
                      size_t which, Stream& stream);
  absl::Status Score(const ScoreArgs& args, size_t which, Stream& stream);

  // Packs the samples of a step that has begun; an alternative to Sample. The caller copies the
  // packed samples to the device. Returns nullopt if the samples need a reallocation, several
  // rounds, or more patches (changed logits) than a round has; the caller then calls Sample.
  std::optional<PackedSamples> Pack(const SampleArgs& args, size_t which);
  // Enqueues kernel Sample for packed samples whose header is at `samples` on the device. The
  // launch may be recorded in a graph. The recorded launch serves every step with at most
  // `groups_max` rows of logits.
  void LaunchPacked(const TensorView& logits, const SampleHeader* samples, const BestOfUnits& best,
                    int32_t groups_max, int32_t* sampled, Stream& stream);
  // Enqueues the copy of the results of packed samples from the device to the host.
  void FetchPacked(size_t which, Stream& stream);
  // Stores the results of step `which` in the arguments of its Sample and Score calls. REQUIRES:
  // the device has finished the step.
  void TakeResults(size_t which);

  // Maximum number of rows of a round (one launch of a sampling kernel). Steps with more rows need
  // several rounds.
  static constexpr int32_t kRowsAtOnce = 256;
  // Returns the maximum size in bytes of the arrays of PackedSamples.
  static size_t PackedBytesMax();

 private:
  // Maximum number of rounds (launches of a sampling kernel) of a step in flight. Before a further
  // round, the sampler waits for the earlier rounds. Prompts with log probabilities and long lists
  // of penalties need many rounds.
  static constexpr size_t kRoundsMax = 8;

  // One launch of a sampling kernel: pinned memory for its inputs and outputs, and its range
  // [begin, end) of rows.
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
  // Packs and enqueues all rows, one round (launch of a sampling kernel) after the other. Each
  // round copies its inputs to the device, calls `launch` with the round and the number of its
  // rows, and copies the results back.
  template <class Args>
  absl::Status EnqueueRounds(const Args& args, StepRounds& step, Stream& stream,
                             absl::FunctionRef<void(const Round&, int32_t)> launch);

  const int32_t num_sms_;
  int64_t vocab_size_ = 0;
  Memory inputs_, outputs_, originals_;
  std::array<StepRounds, 2> steps_;
};

}  // namespace incipit::cuda
