// Runs a checkpoint through TransformerRunner, cut into steps as a test likes, and gives back what
// the runner gives: log probabilities and tokens.
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

// The reference, or the CPU's backend with these choices. Fails the test and aborts it if there is
// none.
std::unique_ptr<Backend> ReferenceOrCpu(bool reference, const CpuChoices& cpu = {});

class CheckpointRun {
 public:
  // Fails the test and aborts it where the folder cannot be loaded.
  explicit CheckpointRun(const std::filesystem::path& folder, const CpuChoices& cpu = {},
                         TransformerRunnerOptions options = OptionsFor(128),
                         WeightFormat format = WeightFormat::kAsStored);
  CheckpointRun(std::unique_ptr<Backend> backend, const std::filesystem::path& folder,
                const TransformerRunnerOptions& options,
                WeightFormat format = WeightFormat::kAsStored);

  // Room for one sequence of that many tokens, and for all of it in one step.
  static TransformerRunnerOptions OptionsFor(size_t num_tokens);

  const Model& model() const { return *model_; }
  TransformerRunner& runner() { return *runner_; }

  // Log probabilities [position][token] after each position of `tokens`, computed `chunk` tokens a
  // step, the sequence's blocks scattered over the pool.
  std::vector<std::vector<double>> AllLogprobs(std::span<const TokenId> tokens, int32_t chunk);

  // The greedy continuation of `prompt`, one token a step.
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
