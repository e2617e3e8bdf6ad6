// Continuous batching with chunked prefill: decides which tokens of which sequences the next step
// computes (docs/scheduler.md).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/types.h"
#include "kvcache/kv_cache_manager.h"
#include "kvcache/tiers/prefix_tier.h"
#include "scheduler/deadline_heap.h"
#include "scheduler/expected_wait.h"
#include "scheduler/prompt_lengths.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_stats.h"
#include "scheduler/scheduling_policy.h"
#include "scheduler/sequence.h"
#include "scheduler/step_time_model.h"
#include "scheduler/tenant_shares.h"
#include "scheduler/waiting_queue.h"

namespace incipit {

// Which loads from a tier are started. kFaster: loads that are predicted to take less time than the
// computation of the same tokens. kAlways: all loads, but kFaster for a request with a deadline.
enum class LoadPolicy : uint8_t { kFaster, kAlways };

// Default of SchedulerOptions::itl_ratio.
inline constexpr double kStepRatio = 3.8;
// Maximum ratio of two predicted durations: of a step in which a prompt ends and which computes
// further prompts, and of a step that only decodes. The latter decodes the decoding sequences of
// the first step, and the sequences whose prompts end in the first step. Not used if itl_target is
// set.
inline constexpr double kSharedStepRatio = 1.9;

struct SchedulerOptions {
  int32_t step_tokens_max = 2048;  // maximum number of tokens that one step computes
  int32_t running_max = 256;       // maximum number of sequences that hold blocks
  // Maximum number of steps that are planned and not committed: 1, or 2 to plan a step while the
  // previous step runs.
  int32_t steps_in_flight_max = 1;
  SchedulingKind scheduling = SchedulingKind::kFair;
  ShareOptions shares{};
  // Goal for the time between two output tokens. While sequences decode, the predicted duration
  // (StepTimeModel) of a step with prompt tokens should be at most itl_target. 0: itl_ratio times
  // the predicted duration of the same step without prompt tokens.
  Duration itl_target{};
  double itl_ratio = kStepRatio;
  // Goal for the time in which all present prompts are computed. If the goal would be missed, steps
  // may take longer than itl_target until these prompts are computed. 0: kPromptRatio * (time that
  // an average prompt needs alone), but at least kTtftMin.
  Duration ttft_target{};
  // Time in which a waiting request gains one level of priority; 0: priorities do not rise.
  Duration priority_aging = std::chrono::seconds(10);
  // Number of waiting requests of a tenant among which the request with the longest cached prefix
  // is admitted first; 1: requests are never reordered.
  int32_t reorder_window = 64;
  // If the policy ranks two running prompts equally, the prompt with fewer tokens left to compute
  // goes first. If both prompts have at most this number of tokens left, the prompt with the
  // smaller OrderKey (higher priority or earlier arrival) goes first.
  int32_t long_prefill_tokens = 64;
  // A sequence that was preempted this number of times is preempted again only if every other
  // running sequence that may be preempted was preempted as often.
  int32_t preemptions_max = 3;
  // True: later sequences may be admitted while an earlier sequence does not fit into the cache.
  bool passing = true;
  // Maximum number of sequences that wait for loads from a tier. A sequence that waits for the
  // second or a later part of its loads also counts, but waits even if the number exceeds the
  // limit.
  int32_t loads_max = 16;
  LoadPolicy load_policy = LoadPolicy::kFaster;
  // Maximum time that a sequence waits for its loads, all parts together. 0: half of the predicted
  // time to compute the same tokens, or kLoadWait if the time cannot be predicted yet. With
  // LoadPolicy::kAlways, 0: twice the predicted time of the loads, but at least kLoadWait.
  Duration load_wait_max{};
  // Maximum number of chunks that one commit reports for a tier to store (ChunkEvent). The next
  // commits report the other chunks.
  int32_t chunk_events_max = 8;
  // Measured steps from which StepTimeModel (predicts the durations of steps) learns before the
  // first request.
  std::vector<MeasuredStep> measured_steps{};
};

// Prompt tokens are added to a step only while its predicted duration is at most kDueRatio times
// the time to the earliest deadline. Considers the deadlines of the first output tokens that the
// step samples.
inline constexpr double kDueRatio = 0.95;

// The default of ttft_target is kPromptRatio times the time of an average prompt, but at least
// kTtftMin.
inline constexpr double kPromptRatio = 5;
inline constexpr Duration kTtftMin = std::chrono::seconds(1);
// The queue of a tenant is long if its waiting prompts take longer than kLongQueueRatio *
// ttft_target, even in steps of step_tokens_max tokens.
inline constexpr double kLongQueueRatio = 32;
// Maximum of the time for which long queues do not count for ttft_target.
inline constexpr Duration kSpareTimeMax = std::chrono::minutes(10);

// Default of load_wait_max while StepTimeModel cannot predict the time to compute a prompt. Also
// the smallest default with LoadPolicy::kAlways.
inline constexpr Duration kLoadWait = std::chrono::seconds(1);

// Maximum number of times that a waiting request is overtaken: a later request of the same tenant
// is admitted first. A request is not overtaken while it waits for loads, or for a prefix whose
// computation advances.
inline constexpr int32_t kOvertakenMax = 64;
// While the head (the first waiting sequence) does not fit into the cache, a plan tries to admit
// other sequences. The plan ends these attempts when this number of other sequences did not fit.
inline constexpr int32_t kPassingTriesMax = 16;
// Maximum number of sequences that one plan takes out of the queue because a running sequence
// computes a prefix that they need.
inline constexpr int32_t kParksMax = 64;

inline constexpr int32_t kStepsInFlightMax = 2;

// The plan of one step: the tokens to compute and to sample. All pointers are valid until Commit or
// Abort.
struct StepPlan {
  // Part of a step: computes the tokens [first_token, first_token + num_tokens) of `sequence`. If
  // num_samples is above 0, the step also samples num_samples tokens from the logits of the last
  // token. The sequences samples[sample_begin, sample_begin + num_samples) get one token each.
  struct Item {
    Sequence* sequence = nullptr;
    int32_t first_token = 0, num_tokens = 0;
    // The step writes the loaded tokens [first_token - num_loaded, first_token) of `sequence` from
    // staging into blocks. If a later part of the loads is missing, num_tokens is 0.
    int32_t num_loaded = 0;
    // Index of the last token of this item among the samples of the previous step. -1: the value of
    // the last token is already known, so no sample of the previous step is needed.
    int32_t fed_sample = -1;
    int32_t sample_begin = 0, num_samples = 0;
    // The step computes the log probabilities of the prompt tokens [score_begin, score_begin +
    // num_scores). The logits of a token give the log probability of the next token.
    int32_t score_begin = 0, num_scores = 0;
  };
  std::vector<Item> items;
  std::vector<Sequence*> samples;  // sequences that receive a sampled token
  // A block whose keys and values the step writes from staging, before `copies` and before the
  // first layer: block number `index` of the chunk that was loaded with `ticket`.
  struct Write {
    BlockId to = kNoBlock;
    LoadTicket ticket{};
    int32_t index = 0;
  };
  std::vector<Write> writes;
  std::vector<BlockCopy> copies;  // block copies that run before the first layer
  int32_t num_tokens = 0;
  int32_t num_scores = 0;
  int32_t num_decode_tokens = 0;  // number of computed output tokens, included in num_tokens
  int32_t num_preemptions = 0;
  StepShape shape;  // quantities that determine the duration of the step

  void Clear();
};

// The results of a step, in the order of the plan. `tokens`: the sampled tokens. `status`: for each
// sampled token, whether its logits are finite. `score_status`: for each log probability of a
// prompt token, whether its logits are finite.
struct StepOutcome {
  std::span<const TokenId> tokens;
  std::span<const RowStatus> status;
  std::span<const RowStatus> score_status;
  Duration duration{};  // time for which the device computed this step; 0: unknown
};

// Reports a chunk of confirmed blocks that a tier must store. The retention hint of the sequence
// applies to the chunk. The blocks keep their contents until the next step is launched, even if the
// sequence has ended.
struct ChunkEvent {
  const Sequence* sequence = nullptr;  // valid until TakeEnded returns the request
  int32_t chunk = 0;                   // number of the chunk in the sequence
  size_t blocks_begin = 0;             // index of the first block in SchedulerEvents::chunk_blocks
};

// All events since the last ClearEvents.
struct SchedulerEvents {
  std::vector<AdmissionEvent> admissions;
  std::vector<PromptLogprobsEvent> prompt_logprobs;
  std::vector<TokenEvent> tokens;
  std::vector<RequestId> ended;  // requests of which all choices have ended
  std::vector<ChunkEvent> chunks;
  // Blocks of `chunks`: ChunkShape::blocks_per_chunk blocks for each event.
  std::vector<BlockId> chunk_blocks;
};

// Plans steps, and records their results (docs/scheduler.md).
//
// Each step decodes one token of every running sequence whose prompt is computed. PromptRoom limits
// the number of prompt tokens in the same step. AddPrompts distributes these tokens over running
// prompts and waiting sequences.
//
// Guarantees:
// - One running sequence, the earliest admitted one, advances in every step and is never preempted
//   (FindEarliest). Therefore every request ends.
// - A sequence is admitted only if enough blocks stay free for all prompts that are being computed,
//   and a small reserve for decoding.
// - If a running sequence computes blocks that a waiting sequence needs, the waiting sequence waits
//   for these blocks. So the same prefix is computed once. Requests that must not read the cache
//   never wait.
// - If a tier has chunks of the prefix of a sequence, the sequence waits for loads of these chunks.
//   With LoadPolicy::kFaster, the sequence does not wait if the predicted time of the loads is not
//   below the predicted time to compute the chunks. A waiting sequence holds no blocks, and waits
//   at most load_wait_max.
// - If staging cannot hold all chunks of a sequence, the chunks are loaded in parts. The sequence
//   is admitted when the first part is loaded. While the sequence waits for the next part, it holds
//   the blocks of the earlier parts, and computes no token. Meanwhile the next sequence advances in
//   every step. A waiting sequence can be preempted, except the earliest admitted sequence: if no
//   other sequence can be preempted, the earliest sequence ends its wait and computes.
// - If the first waiting sequence (the head) does not fit into the cache, later sequences (passing
//   sequences) may be admitted. The cached prefix of the head is not evicted. As soon as the blocks
//   of passing sequences suffice for the head, passing sequences are preempted.
// - If the first output token of a request cannot be computed before the deadline of the request,
//   the request ends with kTooLate.
// - At most kOvertakenMax later requests of a tenant are admitted before a request of the tenant.
//   Admissions do not count while the request waits for loads, or for a prefix whose computation
//   advances.
// - A step is planned while another step is in flight only if no preemption is necessary.
// - If a sequence ends while a step in flight computes its tokens, its blocks are released when the
//   step is committed. The tokens that the step samples for the sequence are discarded.
//
// Threading: one thread. The scheduler reads no clock. Plan and Commit allocate no memory. They
// take O(number of running sequences) time, plus the time of admissions and preemptions. Only the
// destructor frees requests: the caller frees the requests that TakeEnded returns.
class Scheduler {
 public:
  // Creates a scheduler without requests. `tier` may be null. REQUIRES: `cache` and `tier` outlive
  // the scheduler, and all limits of `options` are positive. If `tier` is not null, its chunks have
  // the block size of `cache`, and the keys of `cache` are SHA-256 digests.
  Scheduler(const SchedulerOptions& options, KvCacheManager& cache, PrefixTier* tier = nullptr);

  // Adds a request to the queue. REQUIRES: MakeSequenceGroup created `group` with the cache of this
  // scheduler, and no other request of the scheduler has the same id.
  void Add(std::unique_ptr<SequenceGroup> group);

  // Ends a request, or one choice of a request. May be called while steps are in flight: the blocks
  // are then released when the steps are committed. Returns false if the request or the choice is
  // unknown or has ended.
  bool Cancel(RequestId id);
  bool CancelChoice(RequestId id, int32_t choice);

  // Ends all requests whose deadline has passed, and writes the next step to `plan`. The plan is
  // empty if no token is left to compute, if a step in flight must be committed first, or if all
  // requests wait for loads. An empty plan must not be committed. REQUIRES: fewer than
  // steps_in_flight_max steps are in flight.
  void Plan(Time now, StepPlan& plan);
  // Records the results of a step. REQUIRES: `plan` is the oldest step in flight.
  void Commit(const StepPlan& plan, const StepOutcome& outcome);
  // Undoes a plan whose step failed. Preempted sequences stay preempted. REQUIRES: `plan` is the
  // newest step in flight.
  void Abort(const StepPlan& plan);

  // Ends all requests with `reason`. REQUIRES: no step is in flight.
  void EndAll(FinishReason reason);

  // Returns the blocks that `group` would need if it were admitted now, and the tokens that it
  // would load from the tier. Changes nothing.
  AdmissionPreview Preview(const SequenceGroup& group);

  // Appends the requests that have ended to `ended`. If a step in flight still computes tokens of
  // an ended request, a later call appends this request.
  void TakeEnded(std::vector<std::unique_ptr<SequenceGroup>>& ended);

  // Returns a forecast of the time to the first token of a new request (expected_wait.cpp). Takes
  // O(number of running sequences) time.
  WaitForecast ForecastWait() const;
  // Returns the predicted duration of a step that decodes the sequences of the latest plan and
  // computes no prompt. Returns 0 before the first measured step.
  Duration DecodeStepTime() const { return step_times_.Predict(decode_shape_); }

  const SchedulerEvents& events() const { return events_; }
  void ClearEvents();
  // Returns the counters, and sets them to 0.
  SchedulerCounts TakeCounts();
  // Returns figures for the metrics. Takes O(number of tenants with waiting requests) time.
  SchedulerFigures Figures() const;

  bool idle() const { return groups_.empty() && ending_groups_.empty(); }
  // True if all requests have ended. Steps in flight may still compute tokens of ended requests.
  bool all_ended() const { return groups_.empty(); }
  int32_t num_in_flight() const { return num_in_flight_; }                       // steps
  int32_t num_running() const { return static_cast<int32_t>(running_.size()); }  // sequences
  int32_t num_waiting() const {
    return waiting_.size() + num_parked_ + num_loading() - num_paused_;
  }
  // Number of sequences that wait for loads from a tier. Includes running sequences that wait for
  // the next part of their loads.
  int32_t num_loading() const { return static_cast<int32_t>(loading_.size()); }
  // Returns the time at which Plan must be called, even if no request arrives, no step ends and no
  // load ends: the earliest deadline of a request, or the end of the longest wait for loads.
  Time next_look() const;
  // Number of prompt tokens of the requests that wait and have computed no token yet. A request
  // that runs, and waits for the next part of its loads, does not count.
  int64_t num_waiting_prompt_tokens() const { return waiting_prompts_.num_tokens; }
  // Running sequences in the order of their admission.
  std::span<Sequence* const> running() const { return running_; }
  // Returns the head: the first waiting sequence, if it does not fit into the cache; otherwise
  // nullptr. The head may hold the blocks of its cached prefix. Blocks that the head holds are not
  // evicted.
  const Sequence* head() const { return head_; }
  const TenantShares& shares() const { return shares_; }
  const StepTimeModel& step_times() const { return step_times_; }

 private:
  // Counts over the running sequences at the begin of Plan.
  struct Survey {
    int32_t num_decoding = 0;
    int32_t num_decode_blocks = 0;  // free blocks for one more token of each decoding sequence
    // Number of free blocks needed to compute one more token of each decoding sequence and of the
    // protected sequence (the running sequence that is never preempted).
    int32_t num_urgent_blocks = 0;
  };

  // Deadlines (deadlines.cpp).
  // The work before the first token of a waiting sequence (CountAhead).
  struct Ahead {
    int64_t num_tokens = 0;     // prompt tokens to compute, including those of the sequence
    int32_t num_sequences = 0;  // number of waiting sequences that go first
  };
  void EndExpired(Time now);
  void LookAtDeadline(SequenceGroup& group, Time now);
  void SetLookAt(SequenceGroup& group, Time look_at);
  bool IsHopeless(const Sequence& sequence, int32_t num_missing, Duration left);
  Duration TimeAhead(int64_t num_tokens) const;
  bool LacksSlots(const Sequence& sequence, int32_t num_ahead, Duration left) const;
  Ahead CountAhead(const Sequence& sequence, int32_t num_missing);
  bool StartsBefore(const Sequence& a, int32_t left_a, const Sequence& b, int32_t left_b) const;
  int32_t NumMissingAtMost(Sequence& sequence);
  Duration PromptTime(const Sequence& sequence, int32_t num_missing, double ratio) const;
  Time RiskTime(const Sequence& sequence, int32_t num_missing) const;
  bool IsAtRisk(const Sequence& sequence, int32_t num_missing) const;
  bool IsTooLate(const Sequence& sequence, int32_t num_missing, const StepPlan& plan) const;

  // Requests and their ends (scheduler.cpp).
  void Enqueue(Sequence& sequence);
  void EndGroup(SequenceGroup& group, FinishReason reason);
  void EndSequence(Sequence& sequence, FinishReason reason);
  void SetEndAtCommit(Sequence& sequence, std::optional<FinishReason> reason);
  void PushEnd(const Sequence& sequence, FinishReason reason);
  void CountWaiting(const Sequence& sequence, int32_t factor);
  void Retire(Sequence& sequence);
  void Release(Sequence& sequence);
  void StopRunning(Sequence& sequence);
  void Sweep();

  // Plan (plan.cpp).
  bool HasWork(const Sequence& sequence) const;
  bool IsDecoding(const Sequence& sequence) const;
  int32_t NumBlocksForOne(const Sequence& sequence) const;
  void CountDeferrals();
  Survey SurveyRunning();
  int32_t PromptRoom(const Survey& survey, const StepPlan& plan);
  void CountSpareTime(Time now);
  double QueueTokensMax(const StepPlan& plan) const;
  bool MaySpare() const;
  double NumQueueTokens(int32_t tenant) const;
  bool SparesOthers(const StepPlan& plan, double queue_max) const;
  int64_t NumTokensOfOthers(double queue_max) const;
  int32_t RoomUntilDue(const StepPlan& plan, int32_t room) const;
  int32_t RoomAfterStarted(const StepPlan& plan, int32_t room) const;
  int32_t RoomAfter(const StepPlan& plan, int32_t room, int32_t reserved) const;
  Duration StepTimeMax(const StepShape& decode_part, double ratio) const;
  Duration SharedStepTimeMax(const StepShape& decode_part) const;
  int32_t UsedRoom(const StepShape& decode_part, int32_t room) const;
  Duration TtftTarget() const;
  int32_t RoomWithinTarget(const StepShape& decode_part, int64_t position, int32_t room) const;
  int64_t NumBacklogTokens();
  double NumWaitingTokens();
  bool IsUrgent(int64_t num_tokens, double tokens_per_second) const;
  int32_t PromptTokensPerStep(const StepShape& decode_part, int64_t num_left) const;
  void ReserveForProtected(const Survey& survey);
  void PrepareDecode(Sequence& sequence);
  void AddDecodes(const Survey& survey, StepPlan& plan);
  bool IsComputedBefore(const Sequence& a, const Sequence& b) const;
  bool Yields(const Sequence& prompt, const StepPlan& plan) const;
  void AddPrompts(Time now, StepPlan& plan, int32_t room);
  int32_t ContinuePrompt(Sequence& sequence, int32_t tokens_max, StepPlan& plan);
  void AddItem(Sequence& sequence, int32_t num_tokens, int32_t num_loaded, StepPlan& plan);

  // Admission (admit.cpp).
  struct Candidates {
    Sequence* first = nullptr;
    Sequence* next = nullptr;
  };
  int32_t Admit(Time now, StepPlan& plan, int32_t room, int32_t missing_max, bool may_pass);
  bool PrepareHead();
  Candidates NextToAdmit(int32_t missing_max);
  bool IsCandidate(Sequence& sequence, int32_t missing_max);
  Sequence* FirstCandidate(int32_t tenant, int32_t missing_max);
  Sequence& BestCandidate(Sequence& first, int32_t missing_max);
  bool IsOutOfDate(const Sequence& sequence) const;
  void RefreshMatch(Sequence& sequence);
  bool MayFit(Sequence& sequence);
  int32_t NumAvailable() const;
  bool Fits(const Sequence& sequence, const ComputedBlocks& computed) const;
  int32_t StartSequence(Time now, Sequence& sequence, const ComputedBlocks& computed,
                        int32_t num_found, int32_t room, StepPlan& plan);
  Miss ExplainMiss(const Sequence& sequence, const ComputedBlocks& computed,
                   int32_t num_found) const;
  Miss MissAfterLoads(const Sequence& sequence, int32_t num_found) const;
  void CountOvertaken(const Sequence& admitted);
  void ChargePrompt(Sequence& sequence);
  void ChargeLoaded(const Sequence& sequence, int32_t first_token, int32_t num_tokens);
  void RefundPrompt(Sequence& sequence);
  void InsertRunning(Sequence& sequence);
  SequenceTokens Matchable(const Sequence& sequence) const;
  ComputedBlocks LookUp(const Sequence& sequence);

  // Functions for sequences that wait for a prefix (prefix_waiters.cpp).
  struct SharedPrefix {
    Sequence* producer = nullptr;
    int32_t num_tokens = 0;
  };
  bool SharesBlockAt(const Sequence& a, const Sequence& b, int32_t token) const;
  int32_t NumSharedTokens(const Sequence& a, const Sequence& b) const;
  SharedPrefix FindProducer(const Sequence& sequence, int32_t num_found) const;
  bool WaitForPrefix(Sequence& sequence, int32_t num_found, bool may_fit);
  bool CanPublish(const Sequence& sequence) const;
  void WakeReadyWaiters(Sequence& producer);
  void WakeWaiters(Sequence& producer, int32_t num_tokens);
  void UpdateRanks();
  void StopWaiting(Sequence& sequence);
  void ForgetProducer(Sequence& sequence);
  void CountOvertakenWaiters(const Sequence& admitted);
  bool IsAfterExhaustedWaiter(const Sequence& sequence) const;

  // Functions for loads from a tier, and for stores to a tier (prefix_loads.cpp).
  enum class LoadStart : uint8_t { kNone, kStarted, kLater };
  LoadStart StartLoads(Sequence& sequence, int32_t num_found);
  int32_t NumInTier(const Sequence& sequence, int32_t first_chunk, int32_t chunks_max) const;
  int32_t EndInTier(const Sequence& sequence, int32_t num_found) const;
  int32_t NumLoadable(const Sequence& sequence, int32_t num_found) const;
  std::optional<Duration> PredictComputing(int32_t num_found, int32_t end) const;
  LoadPolicy LoadPolicyOf(const Sequence& sequence) const;
  bool IsTooSlow(const Sequence& sequence, int32_t num_chunks,
                 std::optional<Duration> computing) const;
  Duration LoadWaitMax(const Sequence& sequence, int32_t num_chunks,
                       std::optional<Duration> computing) const;
  int32_t NumFound(Sequence& sequence);
  int32_t NumFoundAtMost(Sequence& sequence);
  int32_t LoadedEnd(const Sequence& sequence) const;
  int32_t LoadableEnd(const Sequence& sequence) const;
  int32_t NumToCompute(const Sequence& sequence) const;
  int32_t FoundEnd(Sequence& sequence, ComputedBlocks& computed);
  int32_t LoadedOfNextPart(Sequence& sequence, int32_t tokens_max);
  void LoadPart(Sequence& sequence);
  void EndWaits(Time now);
  void EndWait(Sequence& sequence);
  bool IsWaitOver(Sequence& sequence, Time now);
  void KeepReady(Sequence& sequence);
  void ReleaseTickets(PrefixLoads& loads, size_t num_kept);
  void KeepLoads(Sequence& sequence, size_t num_kept);
  void AddWrites(const StepPlan::Item& item, StepPlan& plan);
  void CommitPart(const StepPlan::Item& item);
  void ReleaseLoads(Sequence& sequence);
  void AddChunkEvents(Sequence& sequence);
  void RemoveFromTier(const Sequence& sequence);

  // Functions for preemption, and for the head: the waiting sequence that does not fit into the
  // cache (make_room.cpp).
  bool MakeRoom(StepPlan& plan, Survey& survey);
  bool HasUsedDuplicate(BlockId id) const;
  bool HoldsDuplicate() const;
  bool HeadFitsWithout(const Survey& survey, int32_t& num_passing);
  Sequence* FirstWithClaim(SlotClaim least) const;
  Sequence* FindDisplaced();
  Sequence* FindVictimFor(const Sequence& next) const;
  bool HasPassedHead(const Sequence& sequence) const;
  Sequence* LastPassing() const;
  bool PassingTakesPromised(const Survey& survey) const;
  bool ReturnsBefore(const Sequence& victim, const Standing& next) const;
  bool WasPreemptedOften(const Sequence& sequence) const;
  bool WereAllPreemptedOften() const;
  Sequence* ChooseVictim() const;
  bool IsPreemptedBefore(const Sequence& a, const Sequence& b) const;
  int32_t NumLost(const Sequence& sequence) const;
  void Preempt(Sequence& victim, PreemptionReason reason, StepPlan& plan);
  Sequence* FindEarliest(bool includes_paused) const;
  bool HoldHead();
  void ReleaseHead();
  void SetHead(Sequence* sequence);

  // Commit and Abort (commit.cpp).
  struct Cursor;
  void MarkFailed(const StepPlan& plan, const StepOutcome& outcome);
  void CommitItem(const StepPlan& plan, const StepPlan::Item& item, const StepOutcome& outcome,
                  Cursor& cursor);
  void CountAdmission(Sequence& sequence);
  void DeliverSamples(const StepPlan& plan, const StepPlan::Item& item, const StepOutcome& outcome,
                      Cursor& cursor);
  bool Deliver(Sequence& sequence, TokenId token, int32_t logprobs_row);
  void StartChoice(Sequence& choice, const Sequence& prompt);
  void EndFailed(const StepPlan& plan);
  void EndRequested(const StepPlan& plan);

  SchedulerOptions options_;
  KvCacheManager& cache_;
  PrefixTier* tier_;  // null: no tier
  absl::flat_hash_map<RequestId, std::unique_ptr<SequenceGroup>> groups_;
  TenantShares shares_;
  std::unique_ptr<SchedulingPolicy> policy_;
  std::vector<Sequence*> running_;  // in the order of admission
  std::vector<Sequence*> prompts_;  // running sequences whose prompt is not computed yet
  WaitingQueue waiting_;
  // Number of sequences that wait for a prefix that a running sequence computes.
  int32_t num_parked_ = 0;
  // Number of these sequences that were overtaken kOvertakenMax times.
  int32_t num_exhausted_ = 0;
  std::vector<Sequence*> loading_;  // sequences that wait for loads from a tier
  int32_t num_paused_ = 0;          // sequences of loading_ that run (PrefixLoads::is_paused)
  int64_t num_slow_loads_ = 0;      // loads that were predicted to take longer than computing
  DeadlineHeap deadlines_;
  SchedulerEvents events_;
  SchedulerCounts counts_;
  std::array<const StepPlan*, kStepsInFlightMax> in_flight_{};  // the oldest step first
  int32_t num_in_flight_ = 0;
  Time now_{};               // time of the latest plan
  int32_t prompt_room_ = 0;  // limit for the prompt tokens of the latest plan
  // Earliest deadline of the first output tokens that the latest plan samples, or kNoDeadline.
  Time first_token_due_ = kNoDeadline;
  StepShape decode_shape_{};  // decoding sequences of the latest plan
  // The decoding sequences of the latest plan, and the sequences whose prompts end in the latest
  // plan, if they will decode.
  StepShape started_shape_{};
  uint64_t next_order_ = 0;
  uint64_t plan_number_ = 0;
  size_t num_choices_ = 0;      // number of choices (outputs) of all requests
  PromptSums waiting_prompts_;  // the prompts of num_waiting_prompt_tokens()
  // The tokens left to compute in running prompts, at the start of the latest plan.
  PromptSums running_prompts_;
  StepTimeModel step_times_;
  // Median relative error of the predicted durations of steps, for each StepClass.
  std::array<double, kNumStepClasses> step_time_errors_{};
  PromptLengths prompt_lengths_;
  SlotTimes slot_times_;
  // True while steps compute up to step_tokens_max tokens, because the prompts would otherwise miss
  // ttft_target.
  bool is_catching_up_ = false;
  // True if long queues (kLongQueueRatio) did not count for ttft_target in the latest plan.
  bool is_sparing_ = false;
  // Spare time: the time for which PromptRoom may still ignore long queues. Grows while the
  // scheduler does not catch up. Limited, because short steps compute fewer tokens per second.
  Duration spare_time_{};
  int32_t num_to_end_ = 0;    // number of sequences whose `end_at_commit` is set
  int32_t num_to_sweep_ = 0;  // number of sequences in running_ that do not run any more

  // The running sequence that this plan must advance and not preempt, or nullptr.
  Sequence* protected_ = nullptr;
  // The running prompt that yields to waiting sequences of its tenant (Yields), or nullptr. Set by
  // AddPrompts.
  Sequence* yielding_ = nullptr;
  // The running sequence that was admitted first: `protected_`, or an earlier sequence that waits
  // for the next part of its loads. Never preempted.
  Sequence* earliest_ = nullptr;
  Sequence* head_ = nullptr;  // see head()
  // The tenant whose next sequence starts before those of all other tenants, because a sequence was
  // preempted for the share of the tenant. -1: the policy chooses the tenant.
  int32_t slot_tenant_ = -1;
  // For each block: number of its users that HeadFitsWithout considers to preempt. All 0 outside
  // HeadFitsWithout.
  std::vector<int32_t> num_leaving_;
  int32_t num_promised_ = 0;  // free blocks that the prompts of running sequences will need
  // Counts of this plan. num_tries_: failed attempts to admit a sequence after the head (the first
  // waiting sequence, which does not fit into the cache). num_parks_: sequences that began to wait
  // for a prefix that a running sequence computes.
  int32_t num_tries_ = 0, num_parks_ = 0;
  // Number of waiting requests for which this plan has called CountAhead.
  int32_t num_forecasts_ = 0;
  // Free blocks, and tokens of the step, that this plan keeps for the sequence `protected_`.
  int32_t num_reserved_ = 0, num_reserved_tokens_ = 0;
  // True if this plan has preempted sequences because decoding sequences lacked free blocks. The
  // plan then admits no sequence.
  bool lacks_blocks_ = false;
  // True if Admit must examine the queue again: a sequence has entered the queue, or has ended its
  // loads, since Admit has examined the whole queue.
  bool has_arrivals_ = false;
  // True if the latest call of Admit found that the next sequence (the head) does not fit into the
  // cache.
  bool is_blocked_ = false;
  // True if the latest call of Admit ended because the step had no room for further prompt tokens.
  bool is_full_ = false;
  // Number of blocks that admissions could use (NumAvailable) when Admit had examined the whole
  // queue. No sequence of the queue fits into this number of blocks.
  int32_t num_available_ = 0;

  // Requests that have ended and that a step in flight may still compute.
  std::vector<std::unique_ptr<SequenceGroup>> ending_groups_;
  std::vector<std::unique_ptr<SequenceGroup>> ended_groups_;  // requests that TakeEnded will return
  std::vector<SequenceGroup*> to_end_;
};

}  // namespace incipit
