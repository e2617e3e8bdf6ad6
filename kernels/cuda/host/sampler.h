// Runs the sampling kernels (sample.h, score.h): packs rows, enqueues copies and kernels, and
// returns the results after the step has ended.
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

// Device arrays with the largest logit of each unit of 16 tokens, and its token, for each row.
struct BestOfUnits {
  const float* logits = nullptr;  // null: not available
  const int32_t* tokens = nullptr;
};

// Samples for up to two steps in flight. Both steps share memory on the device; the order of their
// stream keeps the steps apart.
class RowSampler {
 public:
  explicit RowSampler(int32_t num_sms) : num_sms_(num_sms) {}

  // Allocates memory for rows of `vocab_size` logits. A later call with a longer row waits for the
  // stream and allocates again. REQUIRES: no results are pending.
  absl::Status Reserve(int64_t vocab_size);
  // Maximum logits of a row for which memory is allocated
  int64_t vocab_size() const { return vocab_size_; }

  void BeginStep(size_t which);
  // Enqueues sampling. The memory that the arguments refer to must stay valid until TakeResults.
  // `sampled`: device memory that receives the token of each row. `best`: the maxima that
  // StoreLogits stored for these logits, if any.
  absl::Status Sample(const SampleArgs& args, const BestOfUnits& best, int32_t* sampled,
                      size_t which, Stream& stream);
  absl::Status Score(const ScoreArgs& args, size_t which, Stream& stream);

  // Alternative to Sample: packs the samples of a step that has begun, and the caller copies the
  // packed samples to the device. Returns nullopt and changes nothing if the samples need more
  // memory, several rounds, or more patches than a round has (sampler.cpp).
  std::optional<PackedSamples> Pack(const SampleArgs& args, size_t which);
  // Enqueues the kernel for packed samples whose header is at `samples`. The launch may be recorded
  // in a graph and serves every step with at most `groups_max` groups.
  void LaunchPacked(const TensorView& logits, const SampleHeader* samples, const BestOfUnits& best,
                    int32_t groups_max, int32_t* sampled, Stream& stream);
  // Enqueues the copy of the packed samples' results to the host.
  void FetchPacked(size_t which, Stream& stream);
  // Stores the results in the arguments of the step's Sample and Score calls. REQUIRES: the step
  // has ended.
  void TakeResults(size_t which);

  // Maximum number of rows of a round. More rows need more rounds.
  static constexpr int32_t kRowsAtOnce = 256;
  // Returns the maximum size in bytes of PackedSamples, each array rounded up.
  static size_t PackedBytesMax();

 private:
  // Maximum number of rounds of a step in flight. Before a further round, the sampler waits for the
  // earlier rounds. Prompts with log probabilities and long lists of penalties need many rounds.
  static constexpr size_t kRoundsMax = 8;

  // As many rows as one packing can hold.
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
  // Packs all rows, round after round. Each round copies its inputs to the device, calls `launch`
  // with the round and its number of rows, and copies the results back.
  template <class Args>
  absl::Status EnqueueRounds(const Args& args, StepRounds& step, Stream& stream,
                             absl::FunctionRef<void(const Round&, int32_t)> launch);

  const int32_t num_sms_;
  int64_t vocab_size_ = 0;
  Memory inputs_, outputs_, originals_;
  std::array<StepRounds, 2> steps_;
};

}  // namespace incipit::cuda
