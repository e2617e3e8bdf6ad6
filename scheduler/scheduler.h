// Decides which sequence computes how many tokens in the next step: continuous batching with
// chunked prefill under a token budget. No thread and no I/O; time comes in as an argument, so that
// a test can drive it through years of traffic with a seed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/types.h"
#include "kvcache/kv_cache_manager.h"
#include "scheduler/request.h"
#include "scheduler/sequence.h"
#include "scheduler/waiting_queue.h"

namespace incipit {

struct SchedulerOptions {
  int32_t step_tokens_max = 2048;  // computed by one step
  int32_t running_max = 256;       // sequences that hold blocks
  // While answers go on, prompts have a small part of each step, but so much that all that are
  // there are computed after so many. 1: they have all that is left.
  int32_t prompt_steps_max = 1;
  // Steps that may be planned and not yet committed: 1, or 2 to plan one while another runs.
  int32_t steps_in_flight_max = 1;
};

inline constexpr int32_t kStepsInFlightMax = 2;

// What one step computes. Pointers are valid until Commit or Abort.
struct StepPlan {
  // Computes tokens [first_token, first_token + num_tokens) of `sequence`. After the last of them
  // sample one token for each of samples[sample_begin .. sample_begin + num_samples).
  struct Item {
    Sequence* sequence = nullptr;
    int32_t first_token = 0, num_tokens = 0;
    // The last of them is what this sample of the previous step gives; -1: all are known.
    int32_t fed_sample = -1;
    int32_t sample_begin = 0, num_samples = 0;
    // Prompt positions [score_begin, score_begin + num_scores) are scored, each by the row of the
    // token before it.
    int32_t score_begin = 0, num_scores = 0;
  };
  std::vector<Item> items;
  std::vector<Sequence*> samples;  // who receives a token
  std::vector<BlockCopy> copies;   // done before the first layer
  int32_t num_tokens = 0;
  int32_t num_scores = 0;
  int32_t num_decode_tokens = 0;  // the last token of an answer so far, computed to get the next
  int32_t num_preemptions = 0;

  void Clear();
};

// What the runner made of a plan: per sample, and per score, in the plan's order.
struct StepOutcome {
  std::span<const TokenId> tokens;
  std::span<const RowStatus> status;
  std::span<const RowStatus> score_status;
};

// What happened since the last ClearEvents.
struct SchedulerEvents {
  std::vector<AdmissionEvent> admissions;
  std::vector<PromptLogprobsEvent> prompt_logprobs;
  std::vector<TokenEvent> tokens;
  std::vector<RequestId> ended;  // requests whose every choice has ended
};

// Rules:
//  - Running sequences come first, by (priority, arrival); then the queue in the same order,
//    strictly: nothing passes a head that does not fit.
//  - A sequence that finds no room preempts the last of the running, itself in the end. A step that
//    preempted admits nobody. The first always advances, so every request ends.
//  - A long prompt leaves one token of the budget to each later sequence that is decoding.
//  - A sequence is admitted only if the blocks for all its tokens are free.
//  - While answers go on, prompts are spread: a step has room for a quarter more tokens than there
//    are sequences, running and waiting, so that steps with and without prompts take about as long.
//    More if there is so much to compute that it would take more than prompt_steps_max steps.
//  - A prompt takes all of the budget that is left. So while one is unfinished nobody is admitted,
//    and whoever is admitted finds what others have computed or compute in the same step: prompts
//    that begin alike compute their beginning once.
//  - A step is planned ahead, while another one is in flight, only if the commit of that one can
//    change nothing but who ends: nobody needs to know the token that it is about to be given
//    (penalties count it; choices start from it), and there is room for all without preemption.
//    So nobody computes less than he would have, and the rules above hold.
//  - Whose end is told while steps compute for it keeps its blocks until the last of them is
//    committed; what they draw for it is dropped.
// Threading: one thread. Plan and Commit allocate nothing and take O(running) time, preemptions and
// admissions aside. Only the destructor frees a group: the caller decides where the groups that
// have ended are freed (TakeEnded).
class Scheduler {
 public:
  // `cache` outlives the scheduler. REQUIRES: positive limits.
  Scheduler(const SchedulerOptions& options, KvCacheManager& cache);

  // REQUIRES: made by MakeSequenceGroup for this cache, under an id that is not in use.
  void Add(std::unique_ptr<SequenceGroup> group);

  // At any time, also while steps are in flight: blocks go back when they are committed. False if
  // unknown or ended.
  bool Cancel(RequestId id);
  bool CancelChoice(RequestId id, int32_t choice);

  // Ends what is past its deadline and decides the next step; empty only if nothing is left, or if
  // a step is in flight that must be committed first. An empty plan is not in flight.
  // REQUIRES: fewer than steps_in_flight_max are.
  void Plan(Time now, StepPlan& plan);
  // REQUIRES: `plan` is the oldest in flight.
  void Commit(const StepPlan& plan, const StepOutcome& outcome);
  // The step did nothing: as if it had not been planned, except that who was preempted stays so.
  // REQUIRES: `plan` is the newest in flight.
  void Abort(const StepPlan& plan);

  // Ends everything with `reason`. Not while a step is in flight.
  void EndAll(FinishReason reason);

  // What admitting `group` would take now, as if it were the next. Changes nothing.
  AdmissionPreview Preview(const SequenceGroup& group);

  // Appends to `ended` the groups that have ended and that no step computes for any more.
  void TakeEnded(std::vector<std::unique_ptr<SequenceGroup>>& ended);

  const SchedulerEvents& events() const { return events_; }
  void ClearEvents();

  bool idle() const { return groups_.empty() && ending_groups_.empty(); }
  bool all_ended() const { return groups_.empty(); }  // though steps may still compute for some
  int32_t num_in_flight() const { return num_in_flight_; }                       // steps
  int32_t num_running() const { return static_cast<int32_t>(running_.size()); }  // sequences
  int32_t num_waiting() const { return waiting_.size(); }
  int64_t num_waiting_prompt_tokens() const { return num_waiting_prompt_tokens_; }
  std::span<Sequence* const> running() const { return running_; }  // first come first

 private:
  // Of every request (scheduler.cpp).
  void Enqueue(Sequence& sequence);
  void EndExpired(Time now);
  void EndGroup(SequenceGroup& group, FinishReason reason);
  void EndSequence(Sequence& sequence, FinishReason reason);
  void PushEnd(const Sequence& sequence, FinishReason reason);
  void Retire(Sequence& sequence);
  void Release(Sequence& sequence);
  void Sweep();

  // Of Plan (plan.cpp).
  bool HasWork(const Sequence& sequence) const;
  bool MayPlanAhead() const;
  int32_t PromptRoom() const;
  void ContinueRunning(StepPlan& plan, int32_t& prompt_room);
  void Admit(Time now, StepPlan& plan, int32_t prompt_room);
  void AddItem(Sequence& sequence, int32_t num_tokens, StepPlan& plan);
  void PreemptLast();
  SequenceTokens Matchable(const Sequence& sequence) const;
  void InsertRunning(Sequence& sequence);
  ComputedBlocks LookUp(const Sequence& sequence);

  // Of Commit (commit.cpp).
  struct Cursor;
  void MarkFailed(const StepPlan& plan, const StepOutcome& outcome);
  void CommitItem(const StepPlan& plan, const StepPlan::Item& item, const StepOutcome& outcome,
                  Cursor& cursor);
  void CountAdmission(Sequence& sequence);
  void DeliverSamples(const StepPlan& plan, const StepPlan::Item& item, const StepOutcome& outcome,
                      Cursor& cursor);
  bool Deliver(Sequence& sequence, TokenId token, int32_t logprobs_row);
  void Start(Sequence& choice, const Sequence& prompt);
  void EndFailed(const StepPlan& plan);
  void EndRequested(SequenceGroup& group);

  SchedulerOptions options_;
  KvCacheManager& cache_;
  absl::flat_hash_map<RequestId, std::unique_ptr<SequenceGroup>> groups_;
  std::vector<Sequence*> running_;  // in order
  WaitingQueue waiting_;
  SchedulerEvents events_;
  std::array<const StepPlan*, kStepsInFlightMax> in_flight_{};  // the oldest first
  int32_t num_in_flight_ = 0;
  uint64_t next_order_ = 0;
  size_t num_choices_ = 0;  // of all groups
  int64_t num_waiting_prompt_tokens_ = 0;
  Time next_deadline_ = kNoDeadline;  // no deadline is earlier
  int32_t num_to_sweep_ = 0;          // sequences still in running_ that hold no blocks
  std::vector<std::unique_ptr<SequenceGroup>> ending_groups_;  // steps may still compute for them
  std::vector<std::unique_ptr<SequenceGroup>> ended_groups_;   // until TakeEnded
  std::vector<SequenceGroup*> expired_;
};

}  // namespace incipit
