#include "tests/serving_sim/baseline.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "tests/serving_sim/own_scheduler.h"

namespace incipit::serving_sim {

std::unique_ptr<SimScheduler> MakeScheduler(SchedulerKind kind, const DeviceModel& device,
                                            const Load& load, int32_t steps_in_flight) {
  switch (kind) {
    case SchedulerKind::kFcfs:
      return std::make_unique<FcfsScheduler>(device, load);
    case SchedulerKind::kFcfsChunked:
      return std::make_unique<FcfsChunkedScheduler>(device, load);
    case SchedulerKind::kLongestPrefix:
      return std::make_unique<LongestPrefixScheduler>(device, load);
    case SchedulerKind::kOurs:
      break;
  }
  return std::make_unique<OwnScheduler>(device, load, steps_in_flight);
}

Baseline::Baseline(const DeviceModel& device, const Load& load)
    : device_(device),
      load_(load),
      cache_(MakeCacheOptions(device)),
      sequences_(load.requests.size()) {}

void Baseline::Add(int32_t request) {
  const SimRequest& from = load_.requests[static_cast<size_t>(request)];
  auto sequence = std::make_unique<BaselineSequence>();
  sequence->request = request;
  sequence->num_prompt = from.num_prompt();
  sequence->output_tokens = from.output_tokens;
  sequence->tokens = from.prompt;
  sequence->table.root = cache_.hasher().Root({});
  cache_.hasher().Extend(sequence->table.root, sequence->tokens, sequence->table.hashes);
  waiting_.push_back(sequence.get());
  sequences_[static_cast<size_t>(request)] = std::move(sequence);
}

ComputedBlocks Baseline::LookUp(const BaselineSequence& sequence, PartialMatch partial) {
  return cache_.GetComputedBlocks(sequence.tokens, sequence.table, partial);
}

bool Baseline::Begin(BaselineSequence& sequence, const ComputedBlocks& computed, int32_t num_new) {
  // Read before the allocation, because `computed` refers to memory of `cache_`.
  const int32_t num_found = computed.num_tokens;
  if (!cache_.AllocateSlots(sequence.table, computed, num_found + num_new)) return false;
  sequence.num_computed = num_found;
  return true;
}

void Baseline::AddItem(BaselineSequence& sequence, int32_t num_tokens, SimStep& step,
                       SimEvents& events) {
  if (!std::exchange(sequence.is_admitted, true)) {
    events.admissions.push_back({sequence.request, sequence.num_computed});
  }
  const int32_t end = sequence.num_computed + num_tokens;
  INCIPIT_CHECK(num_tokens > 0 && end <= sequence.num_tokens());
  step.items.push_back(
      {.request = sequence.request,
       .first_token = sequence.num_computed,
       .num_tokens = num_tokens,
       .is_decoding = num_tokens == 1 && sequence.num_computed >= sequence.num_prompt});
  if (announces_) {
    const SequenceTokens tokens(sequence.tokens);
    cache_.Announce(sequence.table, tokens.first(static_cast<size_t>(end)));
  }
  planned_.push_back(step.items.back());
}

void Baseline::TakeBlocks(BaselineSequence& sequence) {
  cache_.Free(sequence.table);
  sequence.num_computed = 0;
}

BaselineSequence* Baseline::PreemptLast() {
  BaselineSequence* last = running_.back();
  running_.pop_back();
  TakeBlocks(*last);
  waiting_.push_front(last);
  return last;
}

void Baseline::DecodeRunning(SimStep& step, SimEvents& events) {
  for (size_t i = 0; i < running_.size(); ++i) {
    BaselineSequence& sequence = *running_[i];
    bool is_preempted = false;
    while (!is_preempted && !cache_.AllocateSlots(sequence.table, {}, sequence.num_tokens())) {
      is_preempted = PreemptLast() == &sequence;
      ++step.num_preemptions;
    }
    if (!is_preempted) AddItem(sequence, sequence.num_missing(), step, events);
  }
}

void Baseline::Commit(Duration /*duration*/, SimEvents& events) {
  for (const SimItem& item : planned_) {
    CommitItem(*sequences_[static_cast<size_t>(item.request)], item, events);
  }
  planned_.clear();
}

void Baseline::CommitItem(BaselineSequence& sequence, const SimItem& item, SimEvents& events) {
  cache_.ReleaseCopySource(sequence.table);
  sequence.num_computed = item.first_token + item.num_tokens;
  cache_.CacheBlocks(sequence.table, sequence.tokens, sequence.num_computed);
  if (sequence.num_missing() > 0) return;
  const SimRequest& request = load_.requests[static_cast<size_t>(sequence.request)];
  sequence.tokens.push_back(TextToken(request.output_text, sequence.num_output()));
  events.tokens.push_back({.request = sequence.request});
  if (sequence.num_output() < sequence.output_tokens) return;
  cache_.Free(sequence.table);
  std::erase(running_, &sequence);
  OnEnd(sequence);
  events.ended.push_back({.request = sequence.request, .reason = FinishReason::kLength});
  sequences_[static_cast<size_t>(item.request)].reset();
}

}  // namespace incipit::serving_sim
