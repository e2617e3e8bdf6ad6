#include "tests/serving_sim/own_scheduler.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace incipit::serving_sim {
namespace {

RequestId IdOf(int32_t request) { return RequestId{static_cast<uint64_t>(request) + 1}; }
int32_t IndexOf(RequestId id) { return static_cast<int32_t>(static_cast<uint64_t>(id) - 1); }

Request MakeRequest(const SimRequest& from, int32_t index) {
  Request request;
  request.id = IdOf(index);
  request.prompt = from.prompt;
  request.output_tokens_max = from.output_tokens;
  request.num_choices = from.num_choices;
  request.tenant = from.tenant;
  request.priority = from.priority;
  request.arrival = Time{} + FromSeconds(from.arrival);
  if (from.ttft_deadline != kNever) {
    request.first_token_deadline = Time{} + FromSeconds(from.ttft_deadline);
  }
  if (from.deadline != kNever) request.deadline = Time{} + FromSeconds(from.deadline);
  return request;
}

// Returns the text of output number `choice` of a request. Output 0 has the text `output_text`.
uint64_t TextOf(const SimRequest& request, int32_t choice) {
  return choice == 0 ? request.output_text
                     : Mix(request.output_text, static_cast<uint64_t>(choice));
}

}  // namespace

SchedulerOptions MakeOwnOptions(const DeviceModel& device, int32_t steps_in_flight,
                                SchedulingKind scheduling) {
  return {.step_tokens_max = device.step_tokens_max,
          .running_max = device.running_max,
          .steps_in_flight_max = steps_in_flight,
          .scheduling = scheduling,
          .itl_target = FromSeconds(device.itl_target_s),
          .itl_ratio = device.itl_ratio,
          .ttft_target = FromSeconds(device.ttft_target_s)};
}

KvCacheOptions MakeCacheOptions(const DeviceModel& device) {
  return {.num_blocks = device.num_blocks, .block_size = device.block_size};
}

OwnScheduler::OwnScheduler(const DeviceModel& device, const Load& load, int32_t steps_in_flight,
                           SchedulingKind scheduling)
    : load_(load),
      options_(MakeOwnOptions(device, steps_in_flight, scheduling)),
      cache_(MakeCacheOptions(device)),
      scheduler_(options_, cache_) {}

void OwnScheduler::Add(int32_t request) {
  const SimRequest& from = load_.requests[static_cast<size_t>(request)];
  auto shared = std::make_shared<const Request>(MakeRequest(from, request));
  scheduler_.Add(MakeSequenceGroup(std::move(shared), cache_));
}

void OwnScheduler::Plan(Time now, SimStep& step, SimEvents& events) {
  INCIPIT_CHECK(num_planned_ < plans_.size());
  step.Clear();
  StepPlan& plan = plans_[(oldest_ + num_planned_) % plans_.size()];
  scheduler_.Plan(now, plan);
  TakeEvents(events);
  if (plan.items.empty()) return;
  ++num_planned_;
  step.num_preemptions = plan.num_preemptions;
  for (const StepPlan::Item& item : plan.items) {
    const Request& request = item.sequence->request();
    step.items.push_back(
        {.request = IndexOf(request.id),
         .first_token = item.first_token,
         .num_tokens = item.num_tokens,
         .is_decoding = item.num_tokens == 1 && item.first_token >= request.num_prompt(),
         .num_samples = item.num_samples});
  }
}

void OwnScheduler::Commit(Duration duration, SimEvents& events) {
  INCIPIT_CHECK(num_planned_ > 0);
  const StepPlan& plan = plans_[oldest_];
  tokens_.clear();
  for (const Sequence* sequence : plan.samples) {
    const auto index = static_cast<size_t>(IndexOf(sequence->request().id));
    const uint64_t text = TextOf(load_.requests[index], sequence->choice);
    tokens_.push_back(TextToken(text, sequence->num_output()));
  }
  status_.assign(plan.samples.size(), RowStatus::kOk);
  if (poisoned_item_) {
    const StepPlan::Item& item = plan.items[*poisoned_item_];
    INCIPIT_CHECK(item.num_samples > 0);
    status_[static_cast<size_t>(item.sample_begin)] = RowStatus::kNonFinite;
    poisoned_item_.reset();
  }
  scheduler_.Commit(
      plan, {.tokens = tokens_, .status = status_, .score_status = {}, .duration = duration});
  oldest_ = (oldest_ + 1) % plans_.size();
  --num_planned_;
  TakeEvents(events);
}

void OwnScheduler::Abort(SimEvents& events) {
  INCIPIT_CHECK(num_planned_ > 0);
  --num_planned_;
  scheduler_.Abort(plans_[(oldest_ + num_planned_) % plans_.size()]);
  TakeEvents(events);
}

bool OwnScheduler::Cancel(int32_t request, int32_t choice, SimEvents& events) {
  const bool was_live = choice < 0 ? scheduler_.Cancel(IdOf(request))
                                   : scheduler_.CancelChoice(IdOf(request), choice);
  TakeEvents(events);
  return was_live;
}

void OwnScheduler::TakeEvents(SimEvents& events) {
  const SchedulerEvents& from = scheduler_.events();
  for (const AdmissionEvent& event : from.admissions) {
    events.admissions.push_back({IndexOf(event.request), event.num_cached_tokens});
  }
  for (const TokenEvent& event : from.tokens) {
    if (event.token >= 0) events.tokens.push_back({IndexOf(event.request), event.choice});
    if (event.finish) {
      events.ended.push_back({IndexOf(event.request), event.choice, *event.finish});
    }
  }
  for (const RequestId id : from.ended) events.ended_requests.push_back(IndexOf(id));
  scheduler_.ClearEvents();
  scheduler_.TakeEnded(ended_);
  ended_.clear();
}

}  // namespace incipit::serving_sim
