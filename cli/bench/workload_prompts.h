// Creates the prompts of a workload. Equal seeds give equal conversations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cli/bench/bench_prompts.h"
#include "cli/bench/workload.h"

namespace incipit {

// The conversations of the users of a load test. Each user has one conversation at a time, and
// begins a new conversation after the last turn. Not thread-safe.
class WorkloadPrompts {
 public:
  // `tokens` are the token ids of which the prompts consist. REQUIRES: `tokens` is not empty.
  WorkloadPrompts(std::vector<uint32_t> tokens, uint64_t seed, const Workload& workload);

  // Returns the next prompt of the user number `user`. REQUIRES: OnEnd() was called for the
  // previous request of this user.
  BenchPrompt Next(int32_t user);

  // Reports the end of the latest request of `user`. `output` contains the output tokens of the
  // request. If the request has failed, the next request of `user` begins a new conversation.
  void OnEnd(int32_t user, bool succeeded, std::span<const uint32_t> output);

 private:
  // The state of the conversation of one user.
  struct Conversation {
    uint32_t stream = 0;  // index of the random number stream of this conversation
    int32_t turn = 0;     // index of the next turn; 0: the conversation has no history yet
    std::vector<uint32_t> history;  // tokens with which the prompt of the next turn begins
  };

  void Begin(Conversation& conversation);
  int32_t Length(LengthRange range, uint32_t stream, uint64_t position) const;
  void Append(std::vector<uint32_t>& prompt, int32_t num_tokens, uint32_t stream,
              uint64_t position) const;

  const std::vector<uint32_t> tokens_;
  const uint64_t seed_;
  const Workload workload_;
  std::vector<Conversation> conversations_;  // index: number of the user
  uint32_t num_conversations_ = 0;           // number of conversations that have begun
};

}  // namespace incipit
