// From a plan to the flat arrays that a runner takes.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model_runner.h"
#include "scheduler/scheduler.h"

namespace incipit {

// Owns the arrays that a StepBatch views, and reuses their memory from step to step.
class BatchBuilder {
 public:
  // The views are valid until the next call, and while the plan's sequences are as they are.
  StepBatch Build(const StepPlan& plan);

 private:
  void AddTokens(const StepPlan::Item& item);
  void AddDraws(const StepPlan& plan, const StepPlan::Item& item);
  void AddScores(const StepPlan::Item& item);

  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, token_begin_, block_begin_;
  std::vector<BlockId> blocks_;
  std::vector<Draw> draws_;
  std::vector<PromptScore> scores_;
};

}  // namespace incipit
