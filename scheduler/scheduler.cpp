#include "scheduler/scheduler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

template <typename T>
void ReserveAtLeast(std::vector<T>& vector, size_t size) {
  if (vector.capacity() < size) vector.reserve(std::max(size, 2 * vector.capacity()));
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, KvCacheManager& cache)
    : options_(options), cache_(cache) {
  INCIPIT_CHECK(options.step_tokens_max > 0 && options.running_max > 0 &&
                options.running_max <= kBlockUsersMax && options.steps_in_flight_max > 0 &&
                options.steps_in_flight_max <= kStepsInFlightMax);
  running_.reserve(static_cast<size_t>(options.running_max));
  events_.prompt_logprobs.reserve(static_cast<size_t>(options.running_max));
}

void Scheduler::Add(std::unique_ptr<SequenceGroup> group) {
  group->order = next_order_++;
  num_choices_ += group->sequences.size();
  num_waiting_prompt_tokens_ += group->request->num_prompt();
  next_deadline_ = std::min(next_deadline_, group->request->deadline);
  SequenceGroup& added = *group;
  INCIPIT_CHECK(groups_.emplace(added.request->id, std::move(group)).second);

  // Whatever a step does with these requests, it finds the memory for it.
  waiting_.Reserve(num_choices_);
  ReserveAtLeast(events_.tokens, 2 * num_choices_);
  ReserveAtLeast(events_.admissions, groups_.size());
  ReserveAtLeast(events_.ended, events_.ended.size() + groups_.size());
  ReserveAtLeast(ending_groups_, ending_groups_.size() + groups_.size());
  ReserveAtLeast(ended_groups_, ended_groups_.size() + ending_groups_.size() + groups_.size());
  ReserveAtLeast(expired_, num_choices_);
  Enqueue(added.sequences.front());
}

void Scheduler::Enqueue(Sequence& sequence) {
  sequence.state = SequenceState::kWaiting;
  sequence.num_computed = sequence.num_planned = 0;
  waiting_.Push(sequence);
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
  expired_.clear();
  for (const Sequence* sequence : running_) expired_.push_back(sequence->group);
  for (const Sequence* sequence : waiting_.sequences()) expired_.push_back(sequence->group);
  for (SequenceGroup* group : expired_) EndGroup(*group, reason);
  Sweep();
  INCIPIT_CHECK(idle());
}

void Scheduler::EndGroup(SequenceGroup& group, FinishReason reason) {
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
  // This sequence computes the prompt for others: it goes on in the name of one of them. A step in
  // flight may be drawing in these names.
  if (sequence.num_in_flight > 0) {
    sequence.end_at_commit = reason;
    return;
  }
  PushEnd(sequence, reason);
  sequence.end_at_commit.reset();
  std::swap(sequence.choice, heir->choice);
  Retire(*heir);
}

void Scheduler::EndExpired(Time now) {
  expired_.clear();
  next_deadline_ = kNoDeadline;
  const auto look_at = [&](const Sequence* sequence) {
    SequenceGroup& group = *sequence->group;
    const Time deadline = group.request->deadline;
    if (deadline <= now) {
      expired_.push_back(&group);
    } else {
      next_deadline_ = std::min(next_deadline_, deadline);
    }
  };
  std::ranges::for_each(running_, look_at);
  std::ranges::for_each(waiting_.sequences(), look_at);
  for (SequenceGroup* group : expired_) EndGroup(*group, FinishReason::kDeadline);
  Sweep();
}

void Scheduler::PushEnd(const Sequence& sequence, FinishReason reason) {
  events_.tokens.push_back(
      {.request = sequence.request().id, .choice = sequence.choice, .finish = reason});
}

// Takes back what the sequence holds, unless a step in flight uses it. Sweep then forgets it.
void Scheduler::Retire(Sequence& sequence) {
  SequenceGroup& group = *sequence.group;
  if (sequence.state == SequenceState::kWaiting) waiting_.Remove(sequence);
  if (sequence.state == SequenceState::kRunning) {
    sequence.state = SequenceState::kEnding;
    if (sequence.num_in_flight == 0) Release(sequence);
  } else {
    sequence.state = SequenceState::kEnded;
  }
  sequence.end_at_commit.reset();
  if (--group.num_unended > 0) return;
  const Request& request = *group.request;
  if (!group.admitted) num_waiting_prompt_tokens_ -= request.num_prompt();
  events_.ended.push_back(request.id);
  // The id may be used again from now on.
  const auto it = groups_.find(request.id);
  ending_groups_.push_back(std::move(it->second));
  groups_.erase(it);
}

void Scheduler::Release(Sequence& sequence) {
  cache_.Free(sequence.table);
  sequence.state = SequenceState::kEnded;
  num_to_sweep_ += 1;
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
}

}  // namespace incipit
