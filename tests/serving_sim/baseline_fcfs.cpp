// The two baselines that serve requests in the order of arrival.
#include <algorithm>

#include "tests/serving_sim/baseline.h"

namespace incipit::serving_sim {

void FcfsScheduler::Plan(Time now, SimStep& step, SimEvents& events) {
  cache_.Advance(now);
  step.Clear();
  Admit(step, events);
  if (step.items.empty()) DecodeRunning(step, events);
}

void FcfsScheduler::Admit(SimStep& step, SimEvents& events) {
  const int32_t watermark = device_.num_blocks / 100;
  int32_t num_used = 0;
  while (!waiting_.empty() && static_cast<int32_t>(running_.size()) < device_.running_max) {
    BaselineSequence& next = *waiting_.front();
    const ComputedBlocks computed = LookUp(next, PartialMatch::kNo);
    const int32_t num_new = next.num_tokens() - computed.num_tokens;
    if (num_used > 0 && num_used + num_new > device_.step_tokens_max) break;
    const int32_t num_needed = cache_.BlocksNeeded(next.table, computed, next.num_tokens());
    const bool is_alone = running_.empty() && step.items.empty();
    if (!is_alone && num_needed + watermark > cache_.num_free()) break;
    if (!Begin(next, computed, num_new)) break;
    waiting_.pop_front();
    running_.push_back(&next);
    AddItem(next, num_new, step, events);
    num_used += num_new;
  }
}

void FcfsChunkedScheduler::Plan(Time now, SimStep& step, SimEvents& events) {
  cache_.Advance(now);
  step.Clear();
  int32_t budget = device_.step_tokens_max;
  ContinueRunning(budget, step, events);
  if (step.num_preemptions == 0) Admit(budget, step, events);
}

void FcfsChunkedScheduler::ContinueRunning(int32_t& budget, SimStep& step, SimEvents& events) {
  for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
    BaselineSequence& sequence = *running_[i];
    const int32_t num_tokens = std::min(sequence.num_missing(), budget);
    bool is_preempted = false;
    while (!is_preempted &&
           !cache_.AllocateSlots(sequence.table, {}, sequence.num_computed + num_tokens)) {
      is_preempted = PreemptLast() == &sequence;
      ++step.num_preemptions;
    }
    if (is_preempted) return;
    AddItem(sequence, num_tokens, step, events);
    budget -= num_tokens;
  }
}

void FcfsChunkedScheduler::Admit(int32_t budget, SimStep& step, SimEvents& events) {
  while (!waiting_.empty() && budget > 0 &&
         static_cast<int32_t>(running_.size()) < device_.running_max) {
    BaselineSequence& next = *waiting_.front();
    const ComputedBlocks computed = LookUp(next, PartialMatch::kNo);
    const int32_t num_tokens = std::min(next.num_tokens() - computed.num_tokens, budget);
    if (!Begin(next, computed, num_tokens)) return;
    waiting_.pop_front();
    running_.push_back(&next);
    AddItem(next, num_tokens, step, events);
    budget -= num_tokens;
  }
}

}  // namespace incipit::serving_sim
