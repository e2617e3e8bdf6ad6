// Runs a checkpoint through TransformerRunner in steps of any size, and returns the log
// probabilities and tokens of the runner.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "engine/transformer_runner.h"
#include "kernels/backend.h"
#include "kernels/cpu/backend.h"
#include "transformer/model.h"

namespace incipit {

// Returns the reference backend, or the CPU backend with the choices `cpu`. Fails and aborts the
// test if the backend cannot be created.
std::unique_ptr<Backend> ReferenceOrCpu(bool reference, const CpuChoices& cpu = {});

// Returns choices with which the CPU backend computes with f32 activations: the fastest instruction
// set whose products do not round the activations to bf16.
CpuChoices UnroundedCpu();

class CheckpointRun {
 public:
  // Fails and aborts the test if the folder cannot be loaded.
  explicit CheckpointRun(const std::filesystem::path& folder, const CpuChoices& cpu = {},
                         TransformerRunnerOptions options = OptionsFor(128),
                         WeightFormat format = WeightFormat::kAsStored);
  CheckpointRun(std::unique_ptr<Backend> backend, const std::filesystem::path& folder,
                const TransformerRunnerOptions& options,
                WeightFormat format = WeightFormat::kAsStored);

  // Returns options for one sequence of `num_tokens` tokens, which may be computed in one step.
  static TransformerRunnerOptions OptionsFor(size_t num_tokens);

  const Model& model() const { return *model_; }
  TransformerRunner& runner() { return *runner_; }

  // Returns log probabilities [position][token] after each position of `tokens`. Each step computes
  // `chunk` tokens. The blocks of the sequence are scattered over the pool.
  std::vector<std::vector<double>> AllLogprobs(std::span<const TokenId> tokens, int32_t chunk);

  // Returns the greedy continuation of `prompt`, computed one token per step.
  std::vector<TokenId> Greedy(std::span<const TokenId> prompt, int32_t num_tokens);

 private:
  StepResult Step(std::span<const TokenId> tokens, int32_t first_position,
                  std::span<const StepSample> samples, std::span<const StepScore> scores);

  std::unique_ptr<Backend> backend_;
  std::optional<Model> model_;
  std::unique_ptr<TransformerRunner> runner_;
  std::vector<BlockId> blocks_;
};

}  // namespace incipit
