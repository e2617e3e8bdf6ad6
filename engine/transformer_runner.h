// A ModelRunner that computes a transformer on a Backend. The runner owns the keys and values, the
// working memory and the buffers of the steps in flight.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/logits_plan.h"
#include "engine/model_runner.h"
#include "kernels/backend.h"
#include "transformer/model.h"
#include "transformer/transformer.h"

namespace incipit {

struct TransformerRunnerOptions {
  int32_t num_blocks = 0;  // number of blocks for keys and values; 0: computed from kv_bytes
  size_t kv_bytes = 0;     // memory for keys and values, in bytes; 0: computed from memory_fraction
  // Share of the free memory that is used for keys and values. The free memory is measured after
  // all other allocations.
  double memory_fraction = 0.9;
  // If num_blocks is 0, the number of blocks is computed from the size of the memory, but is at
  // most num_blocks_max. If num_blocks_max is 0, there is no maximum.
  int32_t num_blocks_max = 0;
  int32_t block_size = 16;        // tokens per block
  int32_t step_tokens_max = 512;  // maximum number of tokens in a step, over all sequences
  int32_t samples_max = 1024;     // maximum number of samples in a step
  int32_t max_model_len = 0;      // maximum length of a sequence, in tokens; 0: limit of the model
  // Type of the stored keys and values. Absent: f32 if the weights are f32 and the backend supports
  // f32 keys and values, otherwise bf16.
  std::optional<DType> kv_dtype;
};

// Computes steps of a transformer on a backend. Create allocates the memory for the largest step
// that the options allow. Later, only the vectors in StepResult may grow, during the first steps.
// Only one thread at a time may call the runner.
class TransformerRunner final : public ModelRunner {
 public:
  // Creates a runner. `backend` and `model` must outlive the runner, and `model` must be loaded on
  // `backend`. Errors: INVALID_ARGUMENT names an option that is out of range. UNIMPLEMENTED names
  // an option that the backend does not support. RESOURCE_EXHAUSTED names the memory that could not
  // be allocated.
  static absl::StatusOr<std::unique_ptr<TransformerRunner>> Create(
      Backend& backend, const Model& model, const TransformerRunnerOptions& options);

  // Starts the computation of `step` on the backend. REQUIRES: tokens, positions and blocks of
  // `step` are within the limits of TransformerRunnerOptions.
  absl::Status Launch(const Step& step) override;
  absl::Status Wait(StepResult& result) override;
  size_t block_bytes() const override { return Backend::BlockBytes(*pool_); }
  absl::Status ReadBlocks(std::span<const BlockId> blocks, std::span<std::byte> to) override;

  // Returns the options, with the values that Create chose for num_blocks, max_model_len and
  // kv_dtype.
  const TransformerRunnerOptions& options() const { return options_; }
  size_t kv_bytes() const { return kv_bytes_; }

 private:
  // The data of one step in flight, from Launch to Wait.
  struct Slot {
    LogitsPlan logits;
    // Arguments of Sample if one call of Sample samples all tokens of the step. Otherwise unused.
    SampleArgs samples;
    StepResult result;
    bool has_tokens = true;
    // Status of the writes and copies of a step without tokens, if the runner has waited for them.
    std::optional<absl::Status> status;
  };

  TransformerRunner(Backend& backend, const Model& model, const TransformerRunnerOptions& options);

  absl::Status CheckOptions();
  absl::Status Allocate();
  absl::Status Reserve();
  absl::Status AllocatePool();
  void CheckStep(const Step& step) const;
  Activations ActivationsOf(int32_t num_tokens) const;
  void Prepare(const Step& step, Slot& slot) const;
  TensorView LogitsOf(const LogitsPlan::Chunk& chunk) const;
  SampleArgs SamplesOf(const Step& step, const LogitsPlan::Chunk& chunk, Slot& slot) const;
  ScoreArgs ScoresOf(const Step& step, const LogitsPlan::Chunk& chunk, Slot& slot) const;
  // Returns true if a single call of Sample can sample all tokens: the step needs no log
  // probabilities of prompt tokens, and all its logits fit into memory.
  static bool SamplesAtOnce(const Step& step, const Slot& slot);
  // Asks the backend to record the operations of a step (as a CUDA graph). The record is for steps
  // that sample a token for each input token, such as decode steps.
  absl::Status RecordSteps();
  void RunAndSample(const Activations& activations, const SampleArgs& samples) const;
  void ComputeLogits(const Step& step, const Activations& activations, Slot& slot);
  void EndStepWithoutTokens();

  Backend& backend_;
  const Model& model_;
  const DType hidden_dtype_, activation_dtype_;
  TransformerRunnerOptions options_;
  size_t kv_bytes_ = 0;
  // Maximum number of rows of logits that are in memory at the same time. If a step needs more
  // rows, the runner computes the logits in several chunks.
  int32_t logits_rows_max_ = 0;

  std::unique_ptr<Buffer> rope_, hidden_, query_, attention_, mlp_, logits_;
  std::unique_ptr<KvPool> pool_;
  std::optional<Transformer> transformer_;

  std::array<Slot, 2> slots_;
  size_t oldest_ = 0, num_in_flight_ = 0;
};

}  // namespace incipit
