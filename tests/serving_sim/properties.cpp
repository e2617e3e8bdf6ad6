#include "tests/serving_sim/properties.h"

#include <fmt/format.h>

#include <algorithm>

namespace incipit::serving_sim {

PropertyChecks::PropertyChecks(const Load& load, const OwnScheduler& scheduler)
    : load_(load), scheduler_(scheduler), progress_(load.requests.size()) {
  std::map<uint64_t, size_t> tenants;
  for (size_t i = 0; i < progress_.size(); ++i) {
    const SimRequest& request = load.requests[i];
    const Time arrival = Time{} + FromSeconds(request.arrival);
    progress_[i].key = {arrival - request.priority * scheduler.options().priority_aging,
                        static_cast<int32_t>(i)};
    progress_[i].choices.resize(static_cast<size_t>(request.num_choices));
    progress_[i].tenant = tenants.emplace(request.tenant, tenants.size()).first->second;
  }
  services_.resize(tenants.size());
}

void PropertyChecks::Expect(bool holds, int32_t request, const char* error) {
  if (!holds && error_.empty()) error_ = fmt::format("request {}: {}", request, error);
}

void PropertyChecks::OnArrival(int32_t request, double /*now*/) {
  num_arrived_ = request + 1;
  At(request).has_arrived = true;
  At(request).services_before = services_;
  waiting_[RequestAt(request).tenant].insert(At(request).key);
}

void PropertyChecks::OnPlan(const SimStep& step, double /*now*/) {
  int32_t num_tokens = 0;
  for (const SimItem& item : step.items) {
    num_tokens += item.num_tokens;
    Progress& progress = At(item.request);
    if (progress.num_arrived == 0) progress.num_arrived = num_arrived_;
    Expect(item.num_tokens > 0, item.request, "a part of a step has no token");
    Expect(!At(item.request).has_ended, item.request, "a step computes a request that has ended");
  }
  const SchedulerOptions& options = scheduler_.options();
  Expect(num_tokens <= options.step_tokens_max, -1, "a step has too many tokens");
  Expect(scheduler_.scheduler().num_running() <= options.running_max, -1,
         "too many sequences hold blocks");
  NoteWaitsForPrefix(step);
  CheckAdmission(step);
}

// Records the requests that waited for a prefix at the beginning or at the end of the plan of
// `step`, if the plan or the plan before has tokens of the request that computes the prefix.
void PropertyChecks::NoteWaitsForPrefix(const SimStep& step) {
  const auto index_of = [](const Sequence& sequence) {
    return static_cast<int32_t>(static_cast<uint64_t>(sequence.request().id) - 1);
  };
  std::map<int32_t, int32_t> producers;
  for (const Sequence* producer : scheduler_.scheduler().running()) {
    for (const Sequence* waiter = producer->first_waiter; waiter != nullptr;
         waiter = waiter->next_waiter) {
      producers[index_of(*waiter)] = index_of(*producer);
    }
  }
  std::set<int32_t> computed;
  for (const SimItem& item : step.items) computed.insert(item.request);
  std::set<int32_t>& waits = wait_for_prefix_.emplace_back();
  for (const auto* each : {&producers_, &producers}) {
    for (const auto& [waiter, producer] : *each) {
      if (computed.contains(producer) || computed_before_.contains(producer)) waits.insert(waiter);
    }
  }
  producers_ = std::move(producers);
  computed_before_ = std::move(computed);
}

// Checks that the planned `step` admits a sequence if a sequence waits and can start. Leaves out
// steps that compute prompt tokens, because these tokens may use up the room of the step. Also
// leaves out steps with preemptions, in which the scheduler may admit no sequence.
//
// The scheduler tries each sequence once in a plan. If the previous head held blocks during this
// try, the new head starts in the next step only.
void PropertyChecks::CheckAdmission(const SimStep& step) {
  const int64_t fitting_before = std::exchange(fitting_head_, -1);
  const Scheduler& scheduler = scheduler_.scheduler();
  const KvCacheManager& cache = scheduler_.cache();
  // After a preemption, a prompt token may be an output token that was sampled before.
  const auto is_prefill = [](const SimItem& item) {
    return !item.is_decoding || item.num_samples == 0;
  };
  const auto is_admitted = [](const Sequence* sequence) { return sequence->admission_pending; };
  if (scheduler.num_waiting() == 0 || step.num_preemptions > 0 ||
      scheduler.num_running() >= scheduler_.options().running_max ||
      std::ranges::any_of(step.items, is_prefill) ||
      std::ranges::any_of(scheduler.running(), is_admitted)) {
    return;
  }
  const Sequence* head = scheduler.head();
  Expect(head != nullptr, -1, "a step admits no sequence, although a sequence waits");
  if (head == nullptr) return;
  const int32_t num_reserved = cache.num_blocks() / 100;  // must stay free after an admission
  const int32_t num_available = cache.num_free() - num_reserved;
  if (cache.BlocksNeeded(head->table, {}, head->num_tokens()) > num_available) return;
  fitting_head_ = static_cast<int64_t>(head->request().id);
  Expect(fitting_head_ != fitting_before, -1, "a head that fits does not start");
}

// Returns twice the price of as many output tokens as the cache holds. While sequences of one
// tenant run, the counter of this tenant may exceed the counter of a tenant with waiting requests.
// The difference is at most the price of the tokens that the running sequences hold. The price is
// doubled, because the counter of the tenant of a request may already exceed the other counter by
// this price when the request arrives.
double PropertyChecks::service_gap_max() const {
  const KvCacheManager& cache = scheduler_.cache();
  return 2 * scheduler_.options().shares.output_price * cache.num_blocks() * cache.block_size();
}

// Adds the price of the prompt tokens of `item`. Does not count tokens that are computed again
// after a preemption, because the tenant does not pay for them again.
void PropertyChecks::AddPromptService(const SimItem& item) {
  int32_t& num_counted = At(item.request).num_prompt_computed;
  const int32_t end =
      std::min(item.first_token + item.num_tokens, RequestAt(item.request).num_prompt());
  const int32_t begin = std::max(item.first_token, num_counted);
  if (item.is_decoding || begin >= end) return;
  AddService(item.request, kPromptTokenWeight * (end - begin));
  num_counted = end;
}

// Compares the services since the arrival of `request`, which has waited until now.
void PropertyChecks::CheckService(int32_t request) {
  if (scheduler_.options().scheduling != SchedulingKind::kFair) return;
  const std::vector<double>& before = At(request).services_before;
  const size_t own = At(request).tenant;
  for (size_t other = 0; other < services_.size(); ++other) {
    const double gap = (services_[other] - before[other]) - (services_[own] - before[own]);
    Expect(gap <= service_gap_max(), request,
           "another tenant received too much while the request waited");
  }
}

void PropertyChecks::OnStepEnd(const SimStep& step, bool failed, double /*now*/) {
  // The oldest step in flight is committed. Failed steps are aborted, the newest first.
  const std::set<int32_t> waits =
      std::move(failed ? wait_for_prefix_.back() : wait_for_prefix_.front());
  failed ? wait_for_prefix_.pop_back() : wait_for_prefix_.pop_front();
  if (failed) {
    for (const SimItem& item : step.items) {
      if (!At(item.request).has_started) At(item.request).num_arrived = 0;
    }
    return;
  }
  std::vector<int32_t> started;
  for (const SimItem& item : step.items) {
    Progress& progress = At(item.request);
    if (std::exchange(progress.has_started, true) || progress.has_ended) continue;
    started.push_back(item.request);
    waiting_[RequestAt(item.request).tenant].erase(progress.key);
    CheckService(item.request);
  }
  for (const SimItem& item : step.items) AddPromptService(item);
  for (const int32_t request : started) CountOvertakes(request, waits);
}

// Counts the request `started`, which has just started, for each waiting request with a smaller key
// that is not in `not_overtaken`. Does not count `started` for requests that arrived after the plan
// of its first step.
void PropertyChecks::CountOvertakes(int32_t started, const std::set<int32_t>& not_overtaken) {
  const bool is_fcfs = scheduler_.options().scheduling == SchedulingKind::kFcfs;
  for (const auto& [tenant, keys] : waiting_) {
    const bool is_same = tenant == RequestAt(started).tenant;
    if (!is_same && !is_fcfs) continue;
    for (const Key& key : keys) {
      if (key > At(started).key) break;
      if (not_overtaken.contains(key.second)) continue;
      if (key.second >= At(started).num_arrived) continue;
      Progress& waiting = At(key.second);
      waiting.num_passed += is_fcfs;
      waiting.num_overtaken += is_same;
      overtakes_max_ = std::max(overtakes_max_, waiting.num_overtaken);
      passes_max_ = std::max(passes_max_, waiting.num_passed);
      Expect(waiting.num_overtaken <= kOvertakenMax, key.second,
             "too many later requests of the tenant started first");
    }
  }
}

void PropertyChecks::OnPoison(const SimStep& step, size_t item) {
  At(step.items[item].request).is_poisoned = true;
}

void PropertyChecks::OnCancel(int32_t request, int32_t choice, bool was_live) {
  Progress& progress = At(request);
  bool has_live = false;
  for (int32_t i = 0; i < std::ssize(progress.choices); ++i) {
    Choice& cancelled = progress.choices[static_cast<size_t>(i)];
    if ((choice >= 0 && choice != i) || cancelled.has_ended) continue;
    has_live |= !std::exchange(cancelled.is_cancelled, true);
  }
  Expect(was_live == has_live, request, "a cancel was lost, or ended what had ended");
}

void PropertyChecks::OnEvents(const SimEvents& events, double now) {
  for (const SimEvents::Token& token : events.tokens) {
    Choice& choice = At(token.request).choices[static_cast<size_t>(token.choice)];
    Expect(!choice.has_ended, token.request, "a choice gets a token after its end");
    Expect(!choice.is_cancelled, token.request, "a cancelled choice gets a token");
    Expect(++choice.num_output <= RequestAt(token.request).output_tokens, token.request,
           "a choice gets too many tokens");
  }
  for (const SimEvents::Token& token : events.tokens) AddService(token.request, kOutputTokenWeight);
  for (const SimEvents::Admission& admission : events.admissions) {
    AddService(admission.request, kCachedTokenWeight * admission.cached_tokens);
  }
  for (const SimEvents::End& end : events.ended) CheckEnd(end, now);
  for (const int32_t request : events.ended_requests) {
    Progress& progress = At(request);
    Expect(!std::exchange(progress.has_ended, true), request, "a request ends twice");
    if (!progress.has_started) CheckService(request);
    waiting_[RequestAt(request).tenant].erase(progress.key);
    Expect(std::ranges::all_of(progress.choices, &Choice::has_ended), request,
           "a request ends before one of its choices");
  }
}

void PropertyChecks::CheckEnd(const SimEvents::End& end, double now) {
  const SimRequest& request = RequestAt(end.request);
  Progress& progress = At(end.request);
  Choice& choice = progress.choices[static_cast<size_t>(end.choice)];
  Expect(progress.has_arrived, end.request, "a request ends before its arrival");
  Expect(!std::exchange(choice.has_ended, true), end.request, "a choice ends twice");
  const bool has_output = std::ranges::any_of(
      progress.choices, [](const Choice& other) { return other.num_output > 0; });
  switch (end.reason) {
    case FinishReason::kLength:
      Expect(choice.num_output == request.output_tokens, end.request,
             "a choice ends before its last token");
      return;
    case FinishReason::kCancelled:
      Expect(choice.is_cancelled, end.request, "a choice ends as if it were cancelled");
      return;
    case FinishReason::kError:
      Expect(progress.is_poisoned, end.request, "a request fails although its logits are finite");
      return;
    case FinishReason::kTooLate:
      Expect(std::min(request.ttft_deadline, request.deadline) != kNever && !has_output,
             end.request, "a request is refused without need");
      return;
    case FinishReason::kDeadline:
      Expect(now >= request.deadline - 1e-6, end.request, "a request ends before its deadline");
      return;
    case FinishReason::kStop:
      Expect(false, end.request, "a choice without stop tokens stops");
  }
}

std::string PropertyChecks::Finish() {
  for (int32_t i = 0; i < std::ssize(progress_); ++i) {
    Expect(At(i).has_arrived && At(i).has_ended, i, "the request has not ended");
    const bool has_wrong_output =
        At(i).is_poisoned && std::ranges::all_of(At(i).choices, [&](const Choice& choice) {
          return choice.num_output == RequestAt(i).output_tokens;
        });
    Expect(!has_wrong_output, i, "the request is complete although its logits were not finite");
  }
  const Scheduler& scheduler = scheduler_.scheduler();
  Expect(scheduler.idle() && scheduler.num_running() == 0 && scheduler.num_waiting() == 0 &&
             scheduler.num_waiting_prompt_tokens() == 0 && scheduler.head() == nullptr,
         -1, "the scheduler is not empty after the run");
  Expect(scheduler_.cache().num_used() == 0, -1, "a block is in use after the run");
  return error_;
}

PrefixCount::PrefixCount(const Load& load, const OwnScheduler& scheduler,
                         std::vector<TokenId> prefix)
    : PropertyChecks(load, scheduler),
      load_(load),
      prefix_(std::move(prefix)),
      block_size_(scheduler.cache().block_size()),
      num_computed_(prefix_.size() / static_cast<size_t>(block_size_)) {}

bool PrefixCount::HasPrefix(int32_t request) const {
  const std::vector<TokenId>& prompt = load_.requests[static_cast<size_t>(request)].prompt;
  return std::ranges::mismatch(prefix_, prompt).in1 == prefix_.end();
}

void PrefixCount::OnStepEnd(const SimStep& step, bool failed, double now) {
  PropertyChecks::OnStepEnd(step, failed, now);
  if (failed) return;
  for (const SimItem& item : step.items) {
    if (!HasPrefix(item.request)) continue;
    const auto num_blocks = static_cast<int32_t>(num_computed_.size());
    const int32_t end = std::min((item.first_token + item.num_tokens) / block_size_, num_blocks);
    for (int32_t block = item.first_token / block_size_; block < end; ++block) {
      ++num_computed_[static_cast<size_t>(block)];
    }
  }
}

void PrefixCount::OnPoison(const SimStep& step, size_t item) {
  PropertyChecks::OnPoison(step, item);
  num_poisoned_ += HasPrefix(step.items[item].request);
}

int32_t PrefixCount::computed_max() const { return std::ranges::max(num_computed_); }

}  // namespace incipit::serving_sim
