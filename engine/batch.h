// Builds a Step (the input of the model runner) from a StepPlan of the scheduler.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/step.h"
#include "scheduler/scheduler.h"

namespace incipit {

// Builds Step objects. A Step contains only views of arrays. BatchBuilder owns these arrays and
// reuses their memory for the next step.
class BatchBuilder {
 public:
  // Returns the step for `plan`. `tier` has the bytes of the loaded chunks that the step writes
  // into blocks; null if the plan has no writes. The step is valid until the next call of Build.
  // The token counts of its samples (StepSample::counts) are views of data in the sequences.
  // Scheduler::Commit of an earlier step changes these counts.
  Step Build(const StepPlan& plan, const PrefixTier* tier = nullptr);

 private:
  void AddWrites(const StepPlan& plan, const PrefixTier& tier);
  void AddTokens(const StepPlan::Item& item);
  void AddSamples(const StepPlan& plan, const StepPlan::Item& item);
  void AddScores(const StepPlan::Item& item);

  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, token_begin_, block_begin_, sample_begin_, score_begin_;
  std::vector<BlockId> blocks_;
  std::vector<BlockWrite> writes_;
  std::vector<StepSample> samples_;
  std::vector<StepScore> scores_;
};

}  // namespace incipit
