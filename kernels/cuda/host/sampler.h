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

// Device arrays with the largest of every 16 consecutive logits of each row, and with the token ids
// of these logits.
struct BestOfUnits {
  const float* logits = nullptr;  // null: kernel Sample searches the logits themselves
  const int32_t* tokens = nullptr;
};

// Samples tokens for up to two steps in flight. Both steps use the same device memory, one after
// the other, because their work is on one stream.
class RowSampler {
 public:
  explicit RowSampler(int32_t num_sms) : num_sms_(num_sms) {}

  // Allocates memory for rows of `vocab_size` logits. A later Sample or Score call with longer rows
  // waits for the stream and allocates again. REQUIRES: TakeResults has been called for all earlier
  // steps.
  absl::Status Reserve(int64_t vocab_size);
  // Returns the maximum number of logits of a row for which memory is allocated.
  int64_t vocab_size() const { return vocab_size_; }

  void BeginStep(size_t which);
  // Enqueues the sampling of tokens for the step with index `which` (0 or 1). The memory to which
  // `args` refers must stay valid until TakeResults. `sampled` is device memory for the token of
  // each sample. `best` has the largest logits that StoreLogits has stored for these rows, if
  // available.
  absl::Status Sample(const SampleArgs& args, const BestOfUnits& best, int32_t* sampled,
                      size_t which, Stream& stream);
  absl::Status Score(const ScoreArgs& args, size_t which, Stream& stream);

  // Packs the samples of a step so that the caller can copy them to the device together with the
  // step; replaces Sample. Returns nullopt if one launch is not enough for the samples, or if
  // memory must be reallocated; the caller must then call Sample.
  std::optional<PackedSamples> Pack(const SampleArgs& args, size_t which);
  // Enqueues kernel Sample for packed samples; `samples` is the device address of their header. If
  // the launch is recorded in a graph, the graph serves every step with at most `groups_max` rows
  // of logits.
  void LaunchPacked(const TensorView& logits, const SampleHeader* samples, const BestOfUnits& best,
                    int32_t groups_max, int32_t* sampled, Stream& stream);
  // Enqueues the copy of the results of packed samples (Pack) from the device to the host.
  void FetchPacked(size_t which, Stream& stream);
  // Stores the results of step `which` (0 or 1) in the arguments of its Sample and Score calls.
  // REQUIRES: the device has finished the step.
  void TakeResults(size_t which);

  // Maximum number of rows of a round (one launch of a sampling kernel). Steps with more rows need
  // several rounds.
  static constexpr int32_t kRowsAtOnce = 256;
  // Returns the maximum size in bytes of packed samples (Pack).
  static size_t PackedBytesMax();

 private:
  // Maximum number of rounds (launches of a sampling kernel) in flight for a step. If a step needs
  // more rounds, the sampler first waits for the rounds in flight.
  static constexpr size_t kRoundsMax = 8;

  // The data of one launch of a sampling kernel: pinned memory for its inputs and outputs, and the
  // range [begin, end) of its rows.
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
  // Packs and enqueues all rows of `args` in one or more rounds (launches of a sampling kernel). In
  // each round, copies the inputs to the device, calls `launch` with the round and its number of
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
