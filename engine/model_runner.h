// The interface of model runners. A model runner computes a step and returns the sampled tokens.
// The engine accesses models and devices only through this interface.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "base/types.h"
#include "kernels/step.h"

namespace incipit {

// The result of a step. The samples of sequence s are [sample_begin[s], sample_begin[s + 1]) of the
// step. The scores of sequence s are [score_begin[s], score_begin[s + 1]) of the step.
struct StepResult {
  std::vector<TokenId> tokens;          // sampled token of each sample
  std::vector<RowStatus> status;        // status of each sample
  std::vector<RowStatus> score_status;  // status of each score
  Logprobs logprobs;                    // one row per sample that asked for log probabilities
  Logprobs prompt_logprobs;             // one row per score
};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  // Starts a step. At most two steps are in flight. A runner may compute the whole step in Launch.
  // After an error, the step is not in flight.
  virtual absl::Status Launch(const Step& step) = 0;

  // Waits for the oldest step in flight. OK: `result` is the result of the step, with a status for
  // each row. ABORTED: the step did nothing and may be planned again. The results of later steps in
  // flight are then invalid, but the caller must still wait for these steps. Any other error is
  // fatal for every request.
  virtual absl::Status Wait(StepResult& result) = 0;
};

}  // namespace incipit
