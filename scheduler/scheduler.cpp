#include "scheduler/scheduler.h"

#include <algorithm>
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
                options.running_max <= kBlockUsersMax);
  running_.reserve(static_cast<size_t>(options.running_max));
  events_.prompt_logprobs.reserve(static_cast<size_t>(options.running_max));
}

void Scheduler::Add(std::unique_ptr<SequenceGroup> group) {
  group->order = next_order_++;
  num_choices_ += group->sequences.size();
  num_waiting_prompt_tokens_ += group->num_prompt;
  next_deadline_ = std::min(next_deadline_, group->deadline);
  SequenceGroup& added = *group;
  INCIPIT_CHECK(groups_.emplace(added.id, std::move(group)).second);

  // Whatever a step does with these requests, it finds the memory for it.
  waiting_.Reserve(num_choices_);
  ReserveAtLeast(events_.tokens, 2 * num_choices_);
  ReserveAtLeast(events_.admissions, groups_.size());
  ReserveAtLeast(events_.ended, events_.ended.size() + groups_.size());
  ReserveAtLeast(ended_groups_, groups_.size());
  ReserveAtLeast(expired_, num_choices_);
  Enqueue(added.sequences.front());
}

void Scheduler::Enqueue(Sequence& sequence) {
  sequence.state = SequenceState::kWaiting;
  sequence.num_computed = 0;
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
    if (sequence.choice != choice || sequence.state == SequenceState::kEnded) continue;
    EndSequence(sequence, FinishReason::kCancelled);
    Sweep();
    return true;
  }
  return false;
}

void Scheduler::EndAll(FinishReason reason) {
  INCIPIT_CHECK(!in_flight_);
  expired_.clear();
  for (const Sequence* sequence : running_) expired_.push_back(sequence->group);
  for (const Sequence* sequence : waiting_.sequences()) expired_.push_back(sequence->group);
  for (SequenceGroup* group : expired_) EndGroup(*group, reason);
  Sweep();
  INCIPIT_CHECK(idle());
}

// A step in flight holds its sequences, and may be about to give a token to an unborn choice.
bool Scheduler::MustWaitForCommit(const Sequence& sequence) const {
  if (sequence.state == SequenceState::kUnborn) return sequence.group->sequences.front().in_flight;
  return sequence.in_flight;
}

void Scheduler::EndGroup(SequenceGroup& group, FinishReason reason) {
  for (Sequence& sequence : group.sequences) {
    if (sequence.state == SequenceState::kEnded) continue;
    if (MustWaitForCommit(sequence)) {
      if (!sequence.end_at_commit) sequence.end_at_commit = reason;
      continue;
    }
    PushEnd(sequence, reason);
    Retire(sequence);
  }
}

void Scheduler::EndSequence(Sequence& sequence, FinishReason reason) {
  if (MustWaitForCommit(sequence)) {
    if (!sequence.end_at_commit) sequence.end_at_commit = reason;
    return;
  }
  PushEnd(sequence, reason);
  Sequence* heir = sequence.state == SequenceState::kUnborn ? nullptr : FindUnborn(*sequence.group);
  if (heir == nullptr) {
    Retire(sequence);
    return;
  }
  // This sequence computes the prompt for others: it goes on in the name of one of them.
  std::swap(sequence.choice, heir->choice);
  std::swap(sequence.end_at_commit, heir->end_at_commit);
  Retire(*heir);
}

void Scheduler::PushEnd(const Sequence& sequence, FinishReason reason) {
  events_.tokens.push_back(
      {.request = sequence.group->id, .choice = sequence.choice, .finish = reason});
}

// Takes back what the sequence holds. Sweep then forgets it.
void Scheduler::Retire(Sequence& sequence) {
  SequenceGroup& group = *sequence.group;
  if (sequence.state == SequenceState::kWaiting) waiting_.Remove(sequence);
  if (sequence.state == SequenceState::kRunning) {
    cache_.Free(sequence.table);
    num_to_sweep_ += 1;
  }
  sequence.state = SequenceState::kEnded;
  sequence.end_at_commit.reset();
  if (--group.num_unended > 0) return;
  if (!group.admitted) num_waiting_prompt_tokens_ -= group.num_prompt;
  events_.ended.push_back(group.id);
  ended_groups_.push_back(&group);
}

void Scheduler::Sweep() {
  if (num_to_sweep_ > 0) {
    std::erase_if(running_, [](const Sequence* sequence) {
      return sequence->state != SequenceState::kRunning;
    });
    num_to_sweep_ = 0;
  }
  for (const SequenceGroup* group : ended_groups_) {
    num_choices_ -= group->sequences.size();
    groups_.erase(group->id);
  }
  ended_groups_.clear();
}

void Scheduler::ClearEvents() {
  events_.admissions.clear();
  events_.prompt_logprobs.clear();
  events_.tokens.clear();
  events_.ended.clear();
}

}  // namespace incipit
