// A request's progress, as the scheduler sees it: one sequence for each of its choices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "kvcache/kv_cache_manager.h"
#include "kvcache/sequence_tokens.h"
#include "scheduler/request.h"

namespace incipit {

struct SequenceGroup;

enum class SequenceState : uint8_t {
  kUnborn,   // a choice whose prompt another one computes; holds nothing
  kWaiting,  // in the queue; holds no block
  kRunning,
  kEnding,  // its end is told; it holds its blocks until the last step that computes for it is over
  kEnded,
};

// One choice: its tokens are the prompt followed by the output so far; keys and values of the first
// `num_computed` are stored. There is no prefill or decode phase: a step computes some of the
// tokens that are missing, and a sequence with none missing is given one more.
//
// That is what committed steps have done. Once those in flight are done as well, the first
// `num_planned` tokens are stored, and there are `num_pending` more, which nobody knows yet.
struct Sequence {
  SequenceGroup* group = nullptr;
  int32_t choice = 0;
  SequenceState state = SequenceState::kUnborn;
  // `head` is the prompt's whole blocks, which all choices share with the request; `tail` is the
  // rest of the prompt, then the output. So a block is contiguous, and n choices hold one prompt.
  std::span<const TokenId> head;
  std::vector<TokenId> tail;
  BlockTable table;
  int32_t num_computed = 0;
  int32_t num_computed_max = 0;    // the most that it ever had
  std::vector<TokenCount> counts;  // of all tokens, sorted by token; empty without penalties

  // The scheduler's own.
  int32_t queue_index = -1;                   // in the waiting queue
  int32_t num_in_flight = 0;                  // planned steps that it is part of
  int32_t num_planned = 0;                    // num_computed where there are none
  int32_t num_pending = 0;                    // tokens that these steps sample for it
  int32_t pending_sample = -1;                // the sample of the last of them
  bool returning = false;                     // has had blocks before: its match is with itself
  bool admission_pending = false;             // no step since it got its blocks is committed
  int32_t num_hit_tokens = 0;                 // found when it got its blocks
  int32_t num_copied_tokens = 0;              // of them, in a block that is copied
  Miss miss;                                  // why it found no more
  std::optional<FinishReason> end_at_commit;  // others go on in its place, when it can be left

  const Request& request() const;
  SequenceTokens tokens() const { return {head, tail}; }
  int32_t num_tokens() const { return static_cast<int32_t>(head.size() + tail.size()); }
  int32_t num_output() const;
  int32_t length() const { return num_tokens() + num_pending; }
  int32_t num_missing() const { return length() - num_planned; }
  bool ended() const { return state == SequenceState::kEnding || state == SequenceState::kEnded; }
  void Append(TokenId token);  // to the answer; keeps `counts` right
};

// One request and the progress of its choices.
struct SequenceGroup {
  std::shared_ptr<const Request> request;
  std::vector<Sequence> sequences;  // one per choice; never resized

  // The scheduler's own.
  uint64_t order = 0;  // of Add
  int32_t num_unended = 0;
  int32_t num_scored = 0;  // prompt positions 1 .. num_scored have been delivered
  bool admitted = false;   // a step that computed for it is committed
  bool failed = false;     // a row of a committed step is not finite
  Time first_planned{};    // when the step that admitted it was planned

  bool in_flight() const {
    for (const Sequence& sequence : sequences) {
      if (sequence.num_in_flight > 0) return true;
    }
    return false;
  }
  bool scores_prompt() const {
    return request->prompt_logprobs >= 0 && num_scored < request->num_prompt() - 1;
  }
};

inline const Request& Sequence::request() const { return *group->request; }
inline int32_t Sequence::num_output() const { return num_tokens() - request().num_prompt(); }

// The choice that computes the prompt is always the first element; while there are unborn ones, it
// is the only other.
inline Sequence* FindUnborn(SequenceGroup& group) {
  for (Sequence& sequence : group.sequences) {
    if (sequence.state == SequenceState::kUnborn) return &sequence;
  }
  return nullptr;
}

// Returns true if the next step of `sequence` cannot be planned before its pending token is known:
// penalties count the token, or other choices are born with the token. Whatever else must know a
// token that is in flight belongs here.
bool NeedsPendingToken(const Sequence& sequence);

// Turns a request into sequences with all the memory that they will ever need, and hashes the
// prompt, on the caller's thread. REQUIRES: a prompt, an answer and at least one choice; the whole
// fits the cache.
std::unique_ptr<SequenceGroup> MakeSequenceGroup(std::shared_ptr<const Request> request,
                                                 const KvCacheManager& cache);

}  // namespace incipit
