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
  int32_t num_blocks = 0;  // number of blocks in the KV pool; 0: computed from kv_bytes
  size_t kv_bytes = 0;     // size of the KV pool in bytes; 0: computed from memory_fraction
  // Share of the free memory for the KV pool, measured after all other allocations.
  double memory_fraction = 0.9;
  int32_t num_blocks_max = 0;     // maximum number of blocks if num_blocks is 0; 0: no maximum
  int32_t block_size = 16;        // tokens per block
  int32_t step_tokens_max = 512;  // maximum tokens per step, of all sequences together
  int32_t samples_max = 1024;     // maximum samples per step
  int32_t max_model_len = 0;      // maximum length of a sequence, in tokens; 0: limit of the model
  std::optional<DType> kv_dtype;  // absent: f32 for f32 weights if possible, otherwise bf16
};

// Computes steps of a transformer on a backend. Create allocates all memory for the largest step
// that the options allow. A step allocates no memory after the vectors of the results have reached
// their usual size. Only one thread at a time may call the runner.
class TransformerRunner final : public ModelRunner {
 public:
  // Creates a runner. `backend` and `model` must outlive the runner, and `model` must be loaded on
  // `backend`. Errors: INVALID_ARGUMENT names an option that is out of range. UNIMPLEMENTED names
  // an option that the backend does not support. RESOURCE_EXHAUSTED names the memory that could not
  // be allocated.
  static absl::StatusOr<std::unique_ptr<TransformerRunner>> Create(
      Backend& backend, const Model& model, const TransformerRunnerOptions& options);

  // Enqueues the whole step. REQUIRES: tokens, positions and blocks of `step` are within the bounds
  // of the options.
  absl::Status Launch(const Step& step) override;
  absl::Status Wait(StepResult& result) override;

  // Returns the options, with the values that Create chose for num_blocks, max_model_len and
  // kv_dtype.
  const TransformerRunnerOptions& options() const { return options_; }
  size_t kv_bytes() const { return kv_bytes_; }

 private:
  // The data of one step between Launch and Wait.
  struct Slot {
    LogitsPlan logits;
    SampleArgs samples;  // arguments for the whole step, if one call of Sample is enough
    StepResult result;
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
  // Returns true if the step has no scores and one chunk has all rows of logits.
  static bool SamplesAtOnce(const Step& step, const Slot& slot);
  // Asks the backend to record steps that sample from each token row, such as decode steps.
  absl::Status RecordSteps();
  void RunAndSample(const Activations& activations, const SampleArgs& samples) const;
  void ComputeLogits(const Step& step, const Activations& activations, Slot& slot);

  Backend& backend_;
  const Model& model_;
  const DType hidden_dtype_, activation_dtype_;
  TransformerRunnerOptions options_;
  size_t kv_bytes_ = 0;
  // Maximum number of rows of logits in memory. A step with more rows computes the logits in
  // chunks.
  int32_t logits_rows_max_ = 0;

  std::unique_ptr<Buffer> rope_, hidden_, query_, attention_, mlp_, logits_;
  std::unique_ptr<KvPool> pool_;
  std::optional<Transformer> transformer_;

  std::array<Slot, 2> slots_;
  size_t oldest_ = 0, num_in_flight_ = 0;
};

}  // namespace incipit
