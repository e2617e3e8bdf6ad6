// Builds the step for the model runner from the plan of the scheduler.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/step.h"
#include "scheduler/scheduler.h"

namespace incipit {

// Owns the arrays that a Step views, and reuses the memory of these arrays from step to step.
class BatchBuilder {
 public:
  // Returns the step for `plan`. The views in the step are valid until the next call of Build, and
  // only while the sequences of `plan` are unchanged.
  Step Build(const StepPlan& plan);

 private:
  void AddTokens(const StepPlan::Item& item);
  void AddSamples(const StepPlan& plan, const StepPlan::Item& item);
  void AddScores(const StepPlan::Item& item);

  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, token_begin_, block_begin_, sample_begin_, score_begin_;
  std::vector<BlockId> blocks_;
  std::vector<StepSample> samples_;
  std::vector<StepScore> scores_;
};

}  // namespace incipit
