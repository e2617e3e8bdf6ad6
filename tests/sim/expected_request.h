// A simulated request with its expected output, compared with the events that the scheduler emits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/request.h"
#include "scheduler/sequence.h"
#include "tests/support/fake_runner.h"

namespace incipit {

struct ExpectedChoice {
  std::vector<TokenId> tokens;  // the output
  // For each output token: the hash of all earlier tokens (FakeModel::Row), which selects its
  // logits.
  std::vector<uint64_t> rows;
  FinishReason finish{};
  size_t num_received = 0;
  bool ended = false;
  // True if the simulation has cancelled the choice.
  bool cancelled = false;
};

// Computes the expected output of each choice from the request and the fake model alone, without
// scheduler or cache.
class ExpectedRequest {
 public:
  ExpectedRequest(const Request& request, const FakeModel& model);

  // Returns the error in `event`, or an empty string if `event` is as expected.
  std::string Receive(const AdmissionEvent& event);
  std::string Receive(const PromptLogprobsEvent& event, const Logprobs& logprobs);
  std::string Receive(const TokenEvent& event, const Logprobs& logprobs, Time now);

  void Cancel(int32_t choice) { choices_[static_cast<size_t>(choice)].cancelled = true; }
  bool has_pending_cancel() const;
  // Returns true if a choice has received a token.
  bool has_received() const;
  bool ended() const;

  const Request& request() const { return request_; }
  const std::vector<ExpectedChoice>& choices() const { return choices_; }
  // Returns the prompt followed by the choice's whole expected output.
  std::vector<TokenId> TokensOf(int32_t choice) const;
  // The scheduler's object for this request. Invalid after the last event of the request.
  const SequenceGroup* group = nullptr;

 private:
  ExpectedChoice Output(int32_t choice) const;
  std::string CheckToken(const ExpectedChoice& choice, const TokenEvent& event,
                         const Logprobs& logprobs) const;

  Request request_;
  FakeModel model_;
  std::vector<ExpectedChoice> choices_;
  int32_t next_scored_ = 1;
  bool admitted_ = false;
};

}  // namespace incipit
