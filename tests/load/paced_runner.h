// A runner that computes nothing: a step takes the time that the options give, and its tokens are a
// hash. Measures what a server costs around a model.
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
  Duration step_time{};                   // of every step
  Duration token_time{};                  // in addition, for each token that a step computes
  TokenId sampled_token = -1;             // -1: a hash of seed, choice and position
  std::vector<TokenId> avoided_tokens{};  // a hash never gives these
};

// One thread at a time. Steps run one after the other, as on a device: a step starts when it is
// launched or, if that is later, when the previous step ends.
class PacedRunner final : public ModelRunner {
 public:
  explicit PacedRunner(PacedRunnerOptions options);

  absl::Status Launch(const Step& step) override;
  absl::Status Wait(StepResult& result) override;

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
  Time device_end_{};  // of the last step launched
  Mutex mutex_;
  std::condition_variable_any never_;
};

}  // namespace incipit
