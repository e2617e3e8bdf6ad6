#include "scheduler/scheduler.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

template <typename T>
void ReserveAtLeast(std::vector<T>& vector, size_t size) {
  if (vector.capacity() < size) vector.reserve(std::max(size, 2 * vector.capacity()));
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, KvCacheManager& cache, PrefixTier* tier)
    : options_(options),
      cache_(cache),
      tier_(tier),
      shares_(options.shares),
      policy_(MakeSchedulingPolicy(options.scheduling, shares_)),
      waiting_(options.reorder_window),
      num_leaving_(static_cast<size_t>(cache.num_blocks())) {
  INCIPIT_CHECK(options.step_tokens_max > 0 && options.running_max > 0 &&
                options.running_max <= kBlockUsersMax && options.steps_in_flight_max > 0 &&
                options.steps_in_flight_max <= kStepsInFlightMax);
  INCIPIT_CHECK(options.reorder_window > 0 && options.long_prefill_tokens > 0 &&
                options.preemptions_max >= 0 && options.priority_aging >= Duration{});
  INCIPIT_CHECK(options.loads_max > 0 && options.load_wait_max >= Duration{} &&
                options.chunk_events_max > 0);
  if (tier != nullptr) {
    const ChunkShape& shape = tier->shape();
    INCIPIT_CHECK(shape.block_size == cache.block_size());
    INCIPIT_CHECK(IsSha256(cache.options().hash));
    loading_.reserve(static_cast<size_t>(options.loads_max) +
                     static_cast<size_t>(options.running_max));
    const auto num_chunks = static_cast<size_t>(options.chunk_events_max);
    events_.chunks.reserve(num_chunks);
    events_.chunk_blocks.reserve(num_chunks * static_cast<size_t>(shape.blocks_per_chunk));
  }
  running_.reserve(static_cast<size_t>(options.running_max));
  prompts_.reserve(static_cast<size_t>(options.running_max));
  events_.prompt_logprobs.reserve(static_cast<size_t>(options.running_max));
  for (const MeasuredStep& step : options.measured_steps) step_times_.Seed(step);
}

void Scheduler::Add(std::unique_ptr<SequenceGroup> group) {
  const Request& request = *group->request;
  group->standing = {.tenant = shares_.Enter(request.tenant),
                     .priority = request.priority,
                     .key = MakeOrderKey(request, next_order_++, options_.priority_aging),
                     .first_token_by = request.first_token_by()};
  for (Sequence& sequence : group->sequences) {
    sequence.standing = group->standing;
    if (tier_ == nullptr) continue;
    sequence.loads.tickets.reserve(
        static_cast<size_t>(request.length_max() / tier_->shape().num_tokens()));
  }
  group->wait = WaitClock(request.arrival);
  num_choices_ += group->sequences.size();
  // The next plan checks the deadline for the first time.
  group->look_at = request.first_token_by() == kNoDeadline ? kNoDeadline : request.arrival;
  deadlines_.Push(*group);
  SequenceGroup& added = *group;
  INCIPIT_CHECK(groups_.emplace(added.request->id, std::move(group)).second);

  // Reserve all memory for these requests now, because steps must not allocate memory.
  waiting_.ChangeRoom(added.standing.tenant, static_cast<int32_t>(added.sequences.size()));
  ReserveAtLeast(events_.tokens, 2 * num_choices_);
  ReserveAtLeast(events_.admissions, groups_.size());
  ReserveAtLeast(events_.ended, events_.ended.size() + groups_.size());
  ReserveAtLeast(ending_groups_, ending_groups_.size() + groups_.size());
  ReserveAtLeast(ended_groups_, ended_groups_.size() + ending_groups_.size() + groups_.size());
  ReserveAtLeast(to_end_, groups_.size());
  Enqueue(added.sequences.front());
}

void Scheduler::Enqueue(Sequence& sequence) {
  sequence.state = SequenceState::kWaiting;
  sequence.num_computed = sequence.num_planned = 0;
  CountWaiting(sequence, 1);
  waiting_.Push(sequence);
  cache_.CountChanges(true);
  has_arrivals_ = true;
}

// Counts the waiting `sequence` for its tenant, and adds its prompt to the sums of waiting prompts,
// if `factor` is 1. Removes both if `factor` is -1. The sums do not contain preempted sequences.
void Scheduler::CountWaiting(const Sequence& sequence, int32_t factor) {
  shares_.CountWaiting(sequence.group->standing.tenant, factor);
  if (!sequence.group->admitted) waiting_prompts_.Add(sequence.request().num_prompt(), factor);
}

bool Scheduler::Cancel(RequestId id) {
  const auto it = groups_.find(id);
  if (it == groups_.end()) return false;
  EndGroup(*it->second, FinishReason::kCancelled);
  Sweep();
  return true;
}

bool Scheduler::CancelChoice(RequestId id, int32_t choice) {
  const auto it = groups_.find(id);
  if (it == groups_.end()) return false;
  for (Sequence& sequence : it->second->sequences) {
    if (sequence.choice != choice || sequence.ended()) continue;
    EndSequence(sequence, FinishReason::kCancelled);
    Sweep();
    return true;
  }
  return false;
}

void Scheduler::EndAll(FinishReason reason) {
  INCIPIT_CHECK(num_in_flight_ == 0);
  to_end_.clear();
  for (const auto& entry : groups_) to_end_.push_back(entry.second.get());
  for (SequenceGroup* group : to_end_) EndGroup(*group, reason);
  Sweep();
  INCIPIT_CHECK(idle());
}

void Scheduler::EndGroup(SequenceGroup& group, FinishReason reason) {
  if (reason == FinishReason::kTooLate) {
    ++counts_.too_late[shares_.reported_index(group.standing.tenant)];
  }
  for (Sequence& sequence : group.sequences) {
    if (sequence.ended()) continue;
    PushEnd(sequence, reason);
    Retire(sequence);
  }
}

void Scheduler::EndSequence(Sequence& sequence, FinishReason reason) {
  Sequence* heir = sequence.state == SequenceState::kUnborn ? nullptr : FindUnborn(*sequence.group);
  if (heir == nullptr) {
    PushEnd(sequence, reason);
    Retire(sequence);
    return;
  }
  // Another choice of the request (`heir`) still needs the prompt that `sequence` computes. If a
  // step in flight samples the first tokens of the choices, `sequence` ends when this step is
  // committed. Otherwise, `sequence` and `heir` exchange their choice numbers, and `heir` ends now.
  if (sequence.num_pending > 0) {
    SetEndAtCommit(sequence, reason);
    return;
  }
  PushEnd(sequence, reason);
  SetEndAtCommit(sequence, std::nullopt);
  std::swap(sequence.choice, heir->choice);
  Retire(*heir);
}

void Scheduler::SetEndAtCommit(Sequence& sequence, std::optional<FinishReason> reason) {
  num_to_end_ += int{reason.has_value()} - int{sequence.end_at_commit.has_value()};
  sequence.end_at_commit = reason;
}

void Scheduler::PushEnd(const Sequence& sequence, FinishReason reason) {
  events_.tokens.push_back(
      {.request = sequence.request().id, .choice = sequence.choice, .finish = reason});
}

// Ends `sequence`. If no step in flight computes tokens of `sequence`, also releases its blocks.
// Otherwise, the commit of the last such step releases the blocks.
void Scheduler::Retire(Sequence& sequence) {
  SequenceGroup& group = *sequence.group;
  if (sequence.state == SequenceState::kWaiting) {
    CountWaiting(sequence, -1);
    StopWaiting(sequence);
  }
  if (sequence.state == SequenceState::kRunning) {
    StopRunning(sequence);
    slot_times_.AddEnd();
    sequence.state = SequenceState::kEnding;
    if (sequence.num_in_flight == 0) Release(sequence);
  } else {
    ReleaseLoads(sequence);
    sequence.state = SequenceState::kEnded;
  }
  SetEndAtCommit(sequence, std::nullopt);
  if (--group.num_unended > 0) return;
  const Request& request = *group.request;
  events_.ended.push_back(request.id);
  deadlines_.Remove(group);
  shares_.Leave(group.standing.tenant);
  // From here on, Add accepts a new request with the same id.
  const auto it = groups_.find(request.id);
  ending_groups_.push_back(std::move(it->second));
  groups_.erase(it);
}

void Scheduler::Release(Sequence& sequence) {
  cache_.Free(sequence.table);
  ReleaseLoads(sequence);
  sequence.state = SequenceState::kEnded;
  num_to_sweep_ += 1;
}

// Reduces the tenant's service by the price of the prompt tokens of `sequence` that are not
// computed. Moves the sequences that wait for a prefix of `sequence` back to the queue. The caller
// must remove `sequence` from running_.
void Scheduler::StopRunning(Sequence& sequence) {
  shares_.CountRunning(sequence.group->standing.tenant, -1);
  RefundPrompt(sequence);
  sequence.is_passing = false;
  WakeWaiters(sequence, std::numeric_limits<int32_t>::max());
}

void Scheduler::Sweep() {
  if (num_to_sweep_ > 0) {
    std::erase_if(running_, [](const Sequence* sequence) {
      return sequence->state != SequenceState::kRunning &&
             sequence->state != SequenceState::kEnding;
    });
    num_to_sweep_ = 0;
  }
  const auto over = std::partition(
      ending_groups_.begin(), ending_groups_.end(),
      [](const std::unique_ptr<SequenceGroup>& group) { return group->in_flight(); });
  for (auto it = over; it != ending_groups_.end(); ++it) {
    num_choices_ -= (*it)->sequences.size();
    waiting_.ChangeRoom((*it)->standing.tenant, -static_cast<int32_t>((*it)->sequences.size()));
    ended_groups_.push_back(std::move(*it));
  }
  ending_groups_.erase(over, ending_groups_.end());
}

void Scheduler::TakeEnded(std::vector<std::unique_ptr<SequenceGroup>>& ended) {
  std::ranges::move(ended_groups_, std::back_inserter(ended));
  ended_groups_.clear();
}

void Scheduler::ClearEvents() {
  events_.admissions.clear();
  events_.prompt_logprobs.clear();
  events_.tokens.clear();
  events_.ended.clear();
  events_.chunks.clear();
  events_.chunk_blocks.clear();
}

SchedulerCounts Scheduler::TakeCounts() {
  SchedulerCounts counts = std::exchange(counts_, {});
  counts.services = shares_.TakeServices();
  return counts;
}

SchedulerFigures Scheduler::Figures() const {
  SchedulerFigures figures;
  figures.num_active_tenants = shares_.num_active();
  figures.step_time_errors = step_time_errors_;
  double smallest = std::numeric_limits<double>::infinity(), largest = 0;
  for (const int32_t tenant : waiting_.tenants()) {
    smallest = std::min(smallest, shares_.service(tenant));
    largest = std::max(largest, shares_.service(tenant));
  }
  figures.service_gap = std::max(0.0, largest - smallest);
  return figures;
}

}  // namespace incipit
