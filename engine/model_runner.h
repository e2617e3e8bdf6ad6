// The interface of model runners. A model runner computes a step and returns the sampled tokens.
// The engine accesses models and devices only through this interface.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "base/types.h"
#include "kernels/step.h"

namespace incipit {

// The result of a step: the sampled tokens in the order of Step::samples, and the scores (log
// probabilities of prompt tokens) in the order of Step::scores.
struct StepResult {
  std::vector<TokenId> tokens;  // element i is the token sampled for Step::samples[i]
  // Element i is the result of checking the logits for Step::samples[i] for NaN and infinity.
  std::vector<RowStatus> status;
  // Element i is the result of checking the logits for Step::scores[i] for NaN and infinity.
  std::vector<RowStatus> score_status;
  Logprobs logprobs;         // one row for each sample whose request asked for log probabilities
  Logprobs prompt_logprobs;  // one row for each element of Step::scores
};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  // Starts the computation of `step`. At most two steps may be in flight (launched, and Wait not
  // called yet). Launch may also compute the whole step before it returns. If the result is an
  // error, the step is not in flight. After the return of Launch, the runner must not read
  // StepSample::counts, because the commit of an earlier step changes these counts.
  virtual absl::Status Launch(const Step& step) = 0;

  // Waits for the oldest step in flight. OK: `result` is the result of the step, with a status for
  // each row of logits. ABORTED: the step had no effect, and the caller may plan the step again.
  // After ABORTED, the caller must also wait for the later steps in flight and ignore their
  // results. Any other error is fatal for every request.
  virtual absl::Status Wait(StepResult& result) = 0;
};

}  // namespace incipit
