// The interface of model runners. A model runner computes a step and returns the sampled tokens.
// The engine accesses models and devices only through this interface.
#pragma once

#include <cstddef>
#include <span>
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

  // Returns the number of bytes of one cache block: its keys and values in all layers, as
  // BlockWrite::data and ReadBlocks contain them. Returns 0 if the runner stores no keys and
  // values. A runner that returns 0 supports neither Step::writes nor ReadBlocks.
  virtual size_t block_bytes() const = 0;

  // Copies the keys and values of `blocks` to `to`, one block after the other, and waits for the
  // copy. Other steps may be in flight. REQUIRES: Wait has returned for the steps that computed
  // tokens of the blocks or wrote the blocks. No step in flight changes the blocks. `to` has
  // block_bytes() bytes for each block.
  virtual absl::Status ReadBlocks(std::span<const BlockId> blocks, std::span<std::byte> to) = 0;
};

}  // namespace incipit
