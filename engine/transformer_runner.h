// A ModelRunner that computes a transformer on a Backend: owns the keys and values, the working
// memory and the buffers of the steps in flight.
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
  int32_t num_blocks = 0;         // of the KV pool; 0: what kv_bytes or memory_fraction holds
  size_t kv_bytes = 0;            // 0: by memory_fraction
  double memory_fraction = 0.9;   // of the bytes that are free once everything else is allocated
  int32_t num_blocks_max = 0;     // of what memory_fraction holds; 0: no bound
  int32_t block_size = 16;        // tokens
  int32_t step_tokens_max = 512;  // of one step, all sequences together
  int32_t samples_max = 1024;     // of one step
  int32_t max_model_len = 0;      // positions; 0: the model's
  std::optional<DType> kv_dtype;  // none: f32 for f32 weights, else bf16
};

// All memory is allocated by Create, for the largest step that the options allow; a step allocates
// nothing once result vectors have grown to their usual size. One thread at a time.
class TransformerRunner final : public ModelRunner {
 public:
  // `backend` and `model`, loaded on it, must outlive the runner. INVALID_ARGUMENT names an option
  // out of range; UNIMPLEMENTED what the backend lacks; RESOURCE_EXHAUSTED what there is no memory
  // for.
  static absl::StatusOr<std::unique_ptr<TransformerRunner>> Create(
      Backend& backend, const Model& model, const TransformerRunnerOptions& options);

  // Enqueues the whole step. Its tokens, positions and blocks must be within the options' bounds.
  absl::Status Launch(const Step& step) override;
  absl::Status Wait(StepResult& result) override;

  // As they were decided: nothing is 0 or unset.
  const TransformerRunnerOptions& options() const { return options_; }
  size_t kv_bytes() const { return kv_bytes_; }

 private:
  // Of one step between Launch and Wait.
  struct Slot {
    LogitsPlan logits;
    SampleArgs samples;  // of the whole step, if one call of Sample takes them all
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
  // True if the step scores nothing and one chunk has all its rows of logits.
  static bool SamplesAtOnce(const Step& step, const Slot& slot);
  // Records steps that decode, which sample from each row.
  absl::Status RecordSteps();
  void RunAndSample(const Activations& activations, const SampleArgs& samples) const;
  void ComputeLogits(const Step& step, const Activations& activations, Slot& slot);

  Backend& backend_;
  const Model& model_;
  const DType hidden_dtype_, activation_dtype_;
  TransformerRunnerOptions options_;
  size_t kv_bytes_ = 0;
  // Rows of logits that are in memory at a time. Steps with more of them compute them in chunks.
  int32_t logits_rows_max_ = 0;

  std::unique_ptr<Buffer> rope_, hidden_, query_, attention_, mlp_, logits_;
  std::unique_ptr<KvPool> pool_;
  std::optional<Transformer> transformer_;

  std::array<Slot, 2> slots_;
  size_t oldest_ = 0, num_in_flight_ = 0;
};

}  // namespace incipit
