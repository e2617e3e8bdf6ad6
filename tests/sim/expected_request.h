// One simulated request: what it must be given, and what it has been given so far.
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
  std::vector<TokenId> tokens;  // the answer
  std::vector<uint64_t> rows;   // what each was drawn from
  FinishReason finish{};
  size_t num_received = 0;
  bool ended = false;
  bool cancelled = false;  // asked for
};

// Computed from the request alone, without scheduler or cache.
class ExpectedRequest {
 public:
  ExpectedRequest(const Request& request, const FakeModel& model);

  // What is wrong with the event, or empty.
  std::string Receive(const AdmissionEvent& event);
  std::string Receive(const PromptLogprobsEvent& event, const Logprobs& logprobs);
  std::string Receive(const TokenEvent& event, const Logprobs& logprobs, Time now);

  void Cancel(int32_t choice) { choices_[static_cast<size_t>(choice)].cancelled = true; }
  bool has_pending_cancel() const;
  bool has_received() const;  // a token
  bool ended() const;

  const Request& request() const { return request_; }
  const std::vector<ExpectedChoice>& choices() const { return choices_; }
  // Prompt and whole answer.
  std::vector<TokenId> TokensOf(int32_t choice) const;
  const SequenceGroup* group = nullptr;  // the scheduler's; gone with its last event

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
