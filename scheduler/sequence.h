// The progress of a request: one sequence for each choice.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "kvcache/kv_cache_manager.h"
#include "kvcache/sequence_tokens.h"
#include "kvcache/tiers/prefix_tier.h"
#include "scheduler/order_key.h"
#include "scheduler/request.h"
#include "scheduler/wait_clock.h"

namespace incipit {

struct SequenceGroup;

enum class SequenceState : uint8_t {
  kUnborn,  // a choice that starts when another choice of the request has computed the prompt
  // In the queue, or waiting for a prefix that another sequence computes, or waiting for loads.
  kWaiting,
  kRunning,  // holds the blocks of its tokens
  kEnding,   // has ended, but keeps its blocks until the steps that compute it are committed
  kEnded,
};

// The cached prefix of a waiting sequence, as the last lookup found it.
struct CachedMatch {
  bool is_known = false;
  int32_t num_tokens = 0;  // number of tokens in the full blocks that the lookup found
  // Counters of changes in the cache (KvCacheManager::num_changes) at the time of the lookup, for
  // the last block that was found and for the next block. If one of these counters changes, the
  // match is out of date.
  uint32_t last_changes = 0, next_changes = 0;
};

// The loads of chunks of one sequence from a tier (prefix_loads.cpp). If staging cannot hold all
// chunks at the same time, the chunks are loaded in parts. A step writes one part into blocks, and
// the next part is loaded after the commit of this step.
struct PrefixLoads {
  // Tickets of consecutive chunks: the current part. Each ticket belongs to the sequence until the
  // step that writes the chunks into blocks is committed.
  std::vector<LoadTicket> tickets;
  int32_t first_chunk = 0;  // number of the chunk of tickets.front()
  int32_t end_chunk = 0;    // number of the last chunk of the last part, plus 1
  // True while the sequence waits for its loads. The sequence is then not in the queue.
  bool is_waiting = false;
  // True while the sequence waits for the second or a later part. The sequence then runs: it holds
  // the blocks of the earlier parts.
  bool is_paused = false;
  // True if loads were started since the arrival or the latest preemption. If `was_tried` is true,
  // the sequence does not start loads again. False again if another sequence has loaded the first
  // part, and the sequence lacks a later part.
  bool was_tried = false;
  bool has_failed = false;  // true: at least one of the loads failed or took too long
  // Time at which the sequence stops waiting for loads. kNoDeadline: the next plan sets the time.
  Time wait_until{};
  // Time for which the sequence may still wait for loads until the next preemption, after at least
  // one wait has ended.
  Duration wait_left = Duration::max();

  bool has_next_part() const { return first_chunk + std::ssize(tickets) < end_chunk; }
};

// One choice (output) of a request. The tokens of a sequence are the prompt and then the output.
// The keys and values of the first `num_computed` tokens are stored in blocks. A step computes some
// of the other tokens. The step that computes the last token also samples the next token.
//
// `num_computed` counts committed steps only. After the steps in flight, the first `num_planned`
// tokens are computed, and `num_pending` further tokens are sampled.
struct alignas(64) Sequence {
  // Each plan and each commit of a step reads the members up to `table.hashes`. These members fill
  // four cache lines: the caches of a CPU core then hold the state of more sequences.
  SequenceGroup* group = nullptr;
  int32_t choice = 0;
  SequenceState state = SequenceState::kUnborn;
  // True if the sequence was admitted while an earlier sequence did not fit into the cache.
  bool is_passing = false;
  // True if the first token may miss its deadline (Scheduler::IsAtRisk). Set by Scheduler::Plan.
  bool is_at_risk = false;
  // True: no step that computes tokens of the sequence is committed since the latest admission.
  bool admission_pending = false;
  int32_t num_computed = 0;
  int32_t num_computed_max = 0;  // largest value that `num_computed` ever had
  int32_t num_in_flight = 0;     // steps in flight that compute tokens of the sequence
  int32_t num_planned = 0;       // number of computed tokens after the steps in flight
  int32_t num_pending = 0;       // tokens that the steps in flight sample for the sequence
  int32_t pending_sample = -1;   // index of the newest pending token among the samples of its step
  // The smallest `shared_tokens` of all sequences that wait for a prefix of this sequence. When
  // this number of tokens of this sequence is planned, at least one of the waiting sequences can
  // continue.
  int32_t wake_tokens = 0;
  // Reason with which the sequence ends when the steps in flight are committed. Until then, other
  // choices of the request need the blocks of this sequence.
  std::optional<FinishReason> end_at_commit;
  Sequence* first_waiter = nullptr;  // first sequence that waits for this sequence
  // `head` contains the full blocks of the prompt: a view of Request::prompt, which all choices
  // share. `tail` contains the rest of the prompt and the output. So the tokens of each block are
  // contiguous in memory.
  std::span<const TokenId> head;
  std::vector<TokenId> tail;
  PrefixLoads loads;
  BlockTable table;
  // Number of occurrences of each token, sorted by token id. Empty if the request has no penalties.
  std::vector<TokenCount> counts;

  // Only the scheduler changes the members below.

  // Values by which the policy orders sequences. If other sequences wait for a prefix that this
  // sequence computes, `standing` contains the best values among this sequence and the waiting
  // sequences.
  Standing standing;
  bool in_window = false;   // true: in TenantQueue::window_ (the first waiting sequences)
  int32_t heap_index = -1;  // index in the heap of its TenantQueue; -1: not in the heap
  // The cached prefix of this sequence, as the last lookup found it. Valid only if in_window is
  // true.
  CachedMatch match;
  // Number of later sequences of the same tenant that were admitted before this sequence. Does not
  // count admissions while `producer` computes the prefix of this sequence and is not stalled.
  int32_t num_overtaken = 0;
  // True if the prompt of this running sequence got no token in the latest plan in which it could
  // run. A sequence that waits for a part of its loads cannot run.
  bool is_stalled = false;
  int32_t num_preemptions = 0;
  uint64_t tried_in_plan = 0;  // number of the latest plan in which the sequence did not fit

  // The running sequence that computes a prefix of this waiting sequence, or nullptr. This sequence
  // waits until the first `shared_tokens` tokens of `producer` are planned. All sequences that wait
  // for `producer` form a list, which begins at `producer->first_waiter`.
  Sequence* producer = nullptr;
  int32_t shared_tokens = 0;
  Sequence* next_waiter = nullptr;  // next in the list of the sequences that wait for `producer`

  // Number of leading chunks for which the scheduler has decided whether a tier must store them.
  int32_t num_chunks_seen = 0;

  int32_t num_paid = 0;  // number of prompt tokens that the tenant was charged for
  // Number of prompt tokens that the latest admission did not charge as computed tokens, because
  // they were cached or paid earlier.
  int32_t num_prepaid = 0;
  // True if the next lookup may find blocks that this request computed earlier. Either the sequence
  // was preempted, or this choice could not start when the prompt of the request was computed.
  bool returning = false;
  // Number of tokens that were found in the cache at the admission, or were loaded from a tier.
  int32_t num_hit_tokens = 0;
  int32_t num_loaded_tokens = 0;  // number of tokens, among num_hit_tokens, loaded from a tier
  // Number of tokens, included in num_hit_tokens, that the device copies from another block. Only
  // the first tokens of this block match the sequence.
  int32_t num_copied_tokens = 0;
  Miss miss;  // why the lookup at the admission found no more tokens

  const Request& request() const;
  SequenceTokens tokens() const { return {head, tail}; }
  int32_t num_tokens() const { return static_cast<int32_t>(head.size() + tail.size()); }
  int32_t num_output() const;
  int32_t length() const { return num_tokens() + num_pending; }
  int32_t num_missing() const { return length() - num_planned; }
  bool ended() const { return state == SequenceState::kEnding || state == SequenceState::kEnded; }
  // Returns true if the running sequence can continue only after the next part of its loads: the
  // part is not in staging yet, or the step that writes the previous part is in flight.
  bool needs_next_part() const {
    return loads.is_paused || (num_in_flight > 0 && loads.has_next_part());
  }
  void Append(TokenId token);  // appends `token` to the output, and counts it in `counts`
};

// One request and the progress of its choices.
struct alignas(64) SequenceGroup {
  // A step that decodes tokens of the request reads the members up to `standing.tenant`. These
  // members lie in one cache line. They include copies of values in `request`, so that the
  // scheduler reads no cache line of `request` in such a step.
  RequestId id{};
  std::span<const TokenId> stop_tokens;
  int32_t num_prompt = 0;  // number of prompt tokens
  int32_t length_max = 0;  // maximum number of tokens of the prompt and one output together
  int32_t output_tokens_min = 0;
  int32_t num_to_score = 0;  // number of prompt positions that get log probabilities
  bool has_penalties = false;
  bool reports_logprobs = false;  // true: log probabilities of sampled tokens are reported

  // Only the scheduler changes the members below.

  bool failed = false;  // true: a finished step had NaN or infinite logits for the request
  // True after a step (batch) with tokens of the request has finished without NaN or infinite
  // logits of the request.
  bool admitted = false;
  // The log probabilities of the prompt positions 1 to num_scored are reported.
  int32_t num_scored = 0;
  Standing standing;            // values by which the policy orders requests
  int32_t deadline_index = -1;  // index in the DeadlineHeap; -1: the request has no deadline
  // Time of the next check of the deadline. Before the first token, this may be the latest time at
  // which the rest of the prompt can start. Otherwise, it is the deadline itself.
  Time look_at = kNoDeadline;
  int32_t num_unended = 0;  // number of choices that have not ended
  // Times that the request waited, by reason, until it was admitted. Not used after the first
  // committed step of the request.
  WaitClock wait;

  // MakeSequenceGroup sets the next two members. Nothing replaces or resizes them later.
  std::shared_ptr<const Request> request;
  std::vector<Sequence> sequences;  // one for each choice

  bool in_flight() const {
    for (const Sequence& sequence : sequences) {
      if (sequence.num_in_flight > 0) return true;
    }
    return false;
  }
  bool scores_prompt() const { return num_scored < num_to_score; }
};

inline const Request& Sequence::request() const { return *group->request; }
inline int32_t Sequence::num_output() const { return num_tokens() - group->num_prompt; }

// Returns a choice that waits until the prompt is computed, or nullptr. The first element of
// `group.sequences` computes the prompt for all choices.
inline Sequence* FindUnborn(SequenceGroup& group) {
  for (Sequence& sequence : group.sequences) {
    if (sequence.state == SequenceState::kUnborn) return &sequence;
  }
  return nullptr;
}

// Returns true if the next step of `sequence` can be planned only after the commit of the step in
// flight. That commit starts other choices of the request, or ends `sequence`.
bool NeedsPendingToken(const Sequence& sequence);

// Creates the sequences of `request`, allocates all memory that they will need, and computes the
// block keys of the prompt. May be called on any thread. REQUIRES: the prompt is not empty,
// output_tokens_max and num_choices are at least 1, and prompt and output fit into the cache.
std::unique_ptr<SequenceGroup> MakeSequenceGroup(std::shared_ptr<const Request> request,
                                                 const KvCacheManager& cache);

}  // namespace incipit
