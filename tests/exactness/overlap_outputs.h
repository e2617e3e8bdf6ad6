// Compares the outputs of requests with one and with two steps in flight, and with and without
// prefixes that are loaded from a tier. Tokens, log probabilities and finish reasons must be equal,
// although penalties count tokens that the host does not know yet.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/exactness/model_engine.h"

namespace incipit {

// Collects the outputs of all choices of each request. Thread-safe.
class ChoiceListener final : public EngineListener {
 public:
  void OnStep(const StepEvents& events) override {
    MutexLock lock(mutex_);
    for (const AdmissionEvent& event : events.admissions) loaded_tokens_ += event.num_loaded_tokens;
    for (const PromptLogprobsEvent& event : events.prompt_logprobs_events) {
      std::vector<float>& logprobs = outputs_[{event.request, 0}].prompt_logprobs;
      for (int32_t i = 0; i < event.num_rows; ++i) {
        AppendRow(events.prompt_logprobs, event.first_row + i, logprobs);
      }
    }
    for (const TokenEvent& event : events.tokens) {
      Output& output = outputs_[{event.request, event.choice}];
      if (event.token >= 0) output.tokens.push_back(event.token);
      if (event.logprobs_row >= 0) AppendRow(events.logprobs, event.logprobs_row, output.logprobs);
      output.ended = event.finish.has_value();
      output.finish = event.finish;
    }
    changed_.notify_all();
  }
  void OnFatal(const absl::Status& status) override { ADD_FAILURE() << status; }

  Output WaitForOutput(RequestId request, int32_t choice) {
    MutexLock lock(mutex_);
    while (!outputs_[{request, choice}].ended) changed_.wait(mutex_);
    return outputs_[{request, choice}];
  }
  // Returns the number of prompt tokens that were loaded from a tier.
  int64_t loaded_tokens() {
    MutexLock lock(mutex_);
    return loaded_tokens_;
  }

 private:
  static void AppendRow(const Logprobs& logprobs, int32_t row, std::vector<float>& to) {
    const auto at = static_cast<size_t>(row);
    to.push_back(logprobs.chosen[at].logprob);
    for (int32_t i = logprobs.top_begin[at]; i < logprobs.top_begin[at + 1]; ++i) {
      to.push_back(logprobs.top[static_cast<size_t>(i)].logprob);
    }
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::pair<RequestId, int32_t>, Output> outputs_ ABSL_GUARDED_BY(mutex_);
  int64_t loaded_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Returns requests with every kind of penalty, with biases, seeds, stop tokens, several choices,
// log probabilities of the prompt, and requests that must not read the cache.
inline std::vector<Request> PenalisedRequests(int32_t count, int32_t output_tokens) {
  RandomNumbers numbers(77);
  std::vector<Request> requests;
  for (int32_t i = 0; i < count; ++i) {
    Request request;
    request.id = RequestId{static_cast<uint64_t>(i) + 1};
    for (int32_t t = 10 + numbers.Below(20); t > 0; --t) {
      request.prompt.push_back(3 + numbers.Below(60));
    }
    request.output_tokens_max = output_tokens;
    request.num_choices = 1 + i % 3;
    SamplingParams& sampling = request.sampling;
    sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    sampling.seed = static_cast<uint64_t>(i);
    sampling.num_logprobs = i % 4 - 1;
    if (i % 5 != 1) sampling.repetition_penalty = 1.4F;
    if (i % 5 == 1 || i % 5 == 2) sampling.frequency_penalty = 0.7F;
    if (i % 5 == 1 || i % 5 == 3) sampling.presence_penalty = -1.5F;
    if (i % 4 == 3) sampling.logit_bias = {{.token = 7, .bias = 3}, {.token = 9, .bias = -2}};
    if (i % 3 == 2) {
      request.stop_tokens = {7, 11, 13, 17, 19, 23};
      request.output_tokens_min = output_tokens / 2;
    }
    if (i % 7 == 3) request.prompt_logprobs = 2;
    if (i % 7 == 5) request.read_cache = false;
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Outputs {
  std::vector<Output> choices;  // of all requests, in their order
  int64_t loaded_tokens = 0;    // prompt tokens that were loaded from a tier
};

// Returns the outputs of all choices of `requests`, which run at the same time.
inline Outputs OutputsWithSteps(const std::string& checkpoint, const BackendMaker& make_backend,
                                const std::vector<Request>& requests, int32_t steps_in_flight_max,
                                const TierOpener& open_tier = {}) {
  ChoiceListener listener;
  ModelEngine engine(checkpoint, make_backend,
                     {.num_threads = 2,
                      .block_size = 16,
                      .num_blocks = 60,
                      .step_tokens_max = 24,
                      .running_max = 7,
                      .prefix_cache = true,
                      .steps_in_flight_max = steps_in_flight_max,
                      .open_tier = open_tier},
                     &listener);
  for (const Request& request : requests) {
    EXPECT_TRUE(engine.engine().Submit(std::make_shared<const Request>(request)).ok());
  }
  Outputs outputs;
  for (const Request& request : requests) {
    for (int32_t choice = 0; choice < request.num_choices; ++choice) {
      outputs.choices.push_back(listener.WaitForOutput(request.id, choice));
    }
  }
  outputs.loaded_tokens = listener.loaded_tokens();
  return outputs;
}

inline void ExpectSameOutputs(const Outputs& actual, const Outputs& expected) {
  ASSERT_EQ(actual.choices.size(), expected.choices.size());
  for (size_t i = 0; i < expected.choices.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "choice " << i << " of all requests");
    EXPECT_EQ(actual.choices[i].tokens, expected.choices[i].tokens);
    EXPECT_EQ(actual.choices[i].logprobs, expected.choices[i].logprobs);
    EXPECT_EQ(actual.choices[i].prompt_logprobs, expected.choices[i].prompt_logprobs);
    EXPECT_EQ(actual.choices[i].finish, expected.choices[i].finish);
  }
}

// With a tier, the first engine with the tier stores chunks. Later engines have an empty cache and
// load the chunks.
inline void ExpectSameOutputsWithOverlap(const std::string& checkpoint,
                                         const BackendMaker& make_backend, int32_t num_requests,
                                         int32_t output_tokens, const TierOpener& open_tier = {}) {
  const std::vector<Request> requests = PenalisedRequests(num_requests, output_tokens);
  const Outputs expected = OutputsWithSteps(checkpoint, make_backend, requests, 1);
  ExpectSameOutputs(OutputsWithSteps(checkpoint, make_backend, requests, 2, open_tier), expected);
  if (!open_tier) return;
  for (const int32_t steps_in_flight_max : {1, 2}) {
    SCOPED_TRACE(testing::Message() << "loaded, " << steps_in_flight_max << " steps in flight");
    const Outputs loaded =
        OutputsWithSteps(checkpoint, make_backend, requests, steps_in_flight_max, open_tier);
    ExpectSameOutputs(loaded, expected);
    EXPECT_GT(loaded.loaded_tokens, 0);
  }
}

}  // namespace incipit
