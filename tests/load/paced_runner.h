// A model runner that computes nothing. Each step lasts a configured time, and each sampled token
// is a hash. Load tests use the runner to measure the cost of the server without a model.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "engine/model_runner.h"

namespace incipit {

struct PacedRunnerOptions {
  int32_t vocab_size = 0;
  Duration step_time{};   // minimum duration of each step
  Duration token_time{};  // additional time for each token of a step
  // Id of the token that each step samples. -1: each sampled token is a hash of seed, choice and
  // position.
  TokenId sampled_token = -1;
  // Tokens that hashed samples never return.
  std::vector<TokenId> avoided_tokens{};
};

// Not thread-safe. Steps run one after another, as on a device. A step starts at its launch or at
// the end of the previous step, whichever is later.
class PacedRunner final : public ModelRunner {
 public:
  explicit PacedRunner(PacedRunnerOptions options);

  absl::Status Launch(const Step& step) override;
  absl::Status Wait(StepResult& result) override;
  // This runner has no keys and values: block_bytes returns 0, and ReadBlocks UNIMPLEMENTED.
  size_t block_bytes() const override { return 0; }
  absl::Status ReadBlocks(std::span<const BlockId> blocks, std::span<std::byte> to) override;

 private:
  struct StepInFlight {
    Time end{};
    StepResult result;
  };

  TokenId Sample(const StepSample& sample) const;
  void AppendLogprobs(TokenId token, int32_t num_top, Logprobs& logprobs) const;

  const PacedRunnerOptions options_;
  std::array<StepInFlight, 2> steps_;
  size_t oldest_ = 0, num_in_flight_ = 0;
  // End of the last launched step.
  Time device_end_{};
  Mutex mutex_;
  std::condition_variable_any never_;
};

}  // namespace incipit
