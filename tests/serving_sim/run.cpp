#include "tests/serving_sim/run.h"

#include <cmath>
#include <deque>
#include <map>

#include "base/check.h"
#include "tests/serving_sim/random.h"

namespace incipit::serving_sim {
namespace {

class Runner {
 public:
  Runner(const DeviceModel& device, const Load& load, SimScheduler& scheduler,
         const RunOptions& options)
      : device_(device),
        load_(load),
        scheduler_(scheduler),
        noise_(options.noise),
        random_(Mix(options.seed, 99)) {
    record_.requests.resize(load.requests.size());
  }

  RunRecord Run() {
    while (true) {
      AddArrivals();
      PlanSteps();
      if (!in_flight_.empty()) {
        CommitOldest();
      } else if (next_arrival_ < load_.requests.size()) {
        now_ = std::max(now_, ArrivalOf(next_arrival_));
      } else {
        break;
      }
    }
    INCIPIT_CHECK(num_ended_ == load_.requests.size());
    FinishRequests();
    return std::move(record_);
  }

 private:
  struct PlannedStep {
    SimStep step;
    double seconds = 0;
    double end = 0;
  };

  double ArrivalOf(size_t request) const { return load_.requests[request].arrival; }
  const SimRequest& RequestAt(int32_t request) const {
    return load_.requests[static_cast<size_t>(request)];
  }
  RequestRecord& RecordOf(int32_t request) {
    return record_.requests[static_cast<size_t>(request)];
  }

  void AddArrivals() {
    for (; next_arrival_ < load_.requests.size() && ArrivalOf(next_arrival_) <= now_;
         ++next_arrival_) {
      const auto request = static_cast<int32_t>(next_arrival_);
      RecordOf(request).arrival_step = record_.num_steps;
      ChangeWaiting(RequestAt(request).tenant, 1);
      scheduler_.Add(request);
    }
  }

  void ChangeWaiting(uint64_t tenant, int32_t change) {
    record_.service.SetWaiting(tenant, now_, waiting_[tenant] += change);
  }

  void PlanSteps() {
    while (static_cast<int32_t>(in_flight_.size()) < scheduler_.steps_in_flight_max()) {
      PlannedStep planned;
      events_.Clear();
      scheduler_.Plan(Time{} + FromSeconds(now_), planned.step, events_);
      TakeEvents();
      if (planned.step.items.empty()) return;
      planned.seconds = StepSeconds(device_, WorkOf(planned.step));
      if (noise_ > 0) planned.seconds *= std::exp(noise_ * random_.Normal());
      planned.end = (in_flight_.empty() ? now_ : in_flight_.back().end) + planned.seconds;
      NoteFirstSteps(planned.step);
      ++record_.num_steps;
      record_.busy_s += planned.seconds;
      record_.num_preemptions += planned.step.num_preemptions;
      in_flight_.push_back(std::move(planned));
    }
  }

  StepWork WorkOf(const SimStep& step) {
    StepWork work;
    for (const SimItem& item : step.items) {
      work.positions += ChunkPositions(device_, item.first_token, item.num_tokens);
      work.prompt_tokens += item.is_decoding ? 0 : item.num_tokens;
      work.decoding += item.is_decoding;
      record_.step_tokens += item.num_tokens;
    }
    record_.prompt_tokens += work.prompt_tokens;
    return work;
  }

  void NoteFirstSteps(const SimStep& step) {
    for (const SimItem& item : step.items) {
      RequestRecord& record = RecordOf(item.request);
      if (record.first_step >= 0) continue;
      record.first_step = record_.num_steps;
      ChangeWaiting(RequestAt(item.request).tenant, -1);
    }
  }

  void CommitOldest() {
    const PlannedStep planned = std::move(in_flight_.front());
    in_flight_.pop_front();
    now_ = planned.end;
    for (const SimItem& item : planned.step.items) {
      if (item.is_decoding) continue;
      AddService(item.request, kPromptTokenWeight * item.num_tokens);
    }
    events_.Clear();
    scheduler_.Commit(FromSeconds(planned.seconds), events_);
    TakeEvents();
  }

  void AddService(int32_t request, double service) {
    record_.service.AddService(RequestAt(request).tenant, now_, service);
  }

  void TakeEvents() {
    for (const SimEvents::Admission& admission : events_.admissions) {
      RecordOf(admission.request).cached_tokens = admission.cached_tokens;
      AddService(admission.request, kCachedTokenWeight * admission.cached_tokens);
    }
    // Time of a step that only decodes the present sequences. TokenGap::ratio is the time between
    // two tokens divided by this time.
    const double decode_s = DecodeSeconds(device_, num_decoding_, decoding_positions_);
    for (const int32_t request : events_.tokens) TakeToken(request, decode_s);
    for (const SimEvents::End& end : events_.ended) TakeEnd(end);
  }

  void TakeToken(int32_t request, double decode_s) {
    RequestRecord& record = RecordOf(request);
    if (record.num_output++ == 0) {
      record.first_token = now_;
      ++num_decoding_;
      decoding_positions_ += RequestAt(request).num_prompt();
    } else {
      const double gap = now_ - record.last_token;
      record.gaps.push_back({static_cast<float>(gap), static_cast<float>(gap / decode_s)});
    }
    record.last_token = now_;
    decoding_positions_ += 1;
    AddService(request, kOutputTokenWeight);
  }

  void TakeEnd(const SimEvents::End& end) {
    RequestRecord& record = RecordOf(end.request);
    record.end = now_;
    record.is_complete = record.num_output == RequestAt(end.request).output_tokens;
    record_.end_s = now_;
    ++num_ended_;
    if (record.first_step < 0) ChangeWaiting(RequestAt(end.request).tenant, -1);
    if (record.num_output == 0) return;
    --num_decoding_;
    decoding_positions_ -= RequestAt(end.request).num_prompt() + record.num_output;
  }

  void FinishRequests() {
    for (size_t i = 0; i < load_.requests.size(); ++i) {
      const RequestRecord& record = record_.requests[i];
      const int32_t num_computed = load_.requests[i].num_prompt() - record.cached_tokens;
      record_.service.AddRequest(kPromptTokenWeight * num_computed +
                                 kCachedTokenWeight * record.cached_tokens +
                                 kOutputTokenWeight * record.num_output);
    }
  }

  const DeviceModel& device_;
  const Load& load_;
  SimScheduler& scheduler_;
  double noise_;
  Random random_;
  RunRecord record_;
  SimEvents events_;
  std::deque<PlannedStep> in_flight_;  // planned steps, the oldest first
  std::map<uint64_t, int32_t> waiting_;
  double now_ = 0;
  size_t next_arrival_ = 0, num_ended_ = 0;
  // Number of requests that have an output token and have not ended, and the sum of their lengths.
  int64_t num_decoding_ = 0;
  double decoding_positions_ = 0;
};

}  // namespace

RunRecord RunLoad(const DeviceModel& device, const Load& load, SimScheduler& scheduler,
                  const RunOptions& options) {
  return Runner(device, load, scheduler, options).Run();
}

}  // namespace incipit::serving_sim
