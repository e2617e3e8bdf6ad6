// A step in, tokens out: all that the engine knows about models and devices.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "base/types.h"
#include "kernels/step.h"

namespace incipit {

// The samples and scores of sequence s are [sample_begin[s], sample_begin[s + 1]) and
// [score_begin[s], score_begin[s + 1]) of their step.
struct StepResult {
  std::vector<TokenId> tokens;          // per sample
  std::vector<RowStatus> status;        // per sample
  std::vector<RowStatus> score_status;  // per score
  Logprobs logprobs;                    // a row per sample that asked for them, in order
  Logprobs prompt_logprobs;             // a row per score
};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  // Starts a step. At most two are in flight; a runner may compute everything here. After an error
  // the step is not in flight.
  virtual absl::Status Launch(const Step& step) = 0;

  // Waits for the oldest step. OK: `result` holds it, with a status per row. ABORTED: the step did
  // nothing and may be planned again; what was launched after it is worth nothing, but must be
  // waited for. Anything else is fatal for every request.
  virtual absl::Status Wait(StepResult& result) = 0;
};

}  // namespace incipit
