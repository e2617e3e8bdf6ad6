// From a plan to the step that a runner takes.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/step.h"
#include "scheduler/scheduler.h"

namespace incipit {

// Owns the arrays that a Step views, and reuses their memory from step to step.
class BatchBuilder {
 public:
  // The views are valid until the next call, and while the plan's sequences are as they are.
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
