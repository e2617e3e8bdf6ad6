#include "tests/serving_sim/run.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tests/serving_sim/random.h"

namespace incipit::serving_sim {
namespace {

class Runner {
 public:
  Runner(const DeviceModel& device, const Load& load, SimScheduler& scheduler,
         const RunOptions& options, RunObserver* observer)
      : device_(device),
        load_(load),
        scheduler_(scheduler),
        noise_(options.noise),
        random_(Mix(options.seed, 99)),
        faults_(options.faults, load),
        cancels_(options.faults.cancel > 0),
        observer_(observer) {
    record_.requests.resize(load.requests.size());
    for (const SimRequest& request : load.requests) {
      num_output_.emplace_back(static_cast<size_t>(request.num_choices));
    }
  }

  RunRecord Run() {
    while (true) {
      AddArrivals();
      CancelRequests();
      PlanSteps();
      CancelRequests();
      if (!in_flight_.empty()) {
        EndOldest();
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
    int64_t number = 0;  // number of steps that were planned before
    double seconds = 0;
    double end = 0;
    bool fails = false;
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
      faults_.OnArrival(request);
      if (observer_ != nullptr) observer_->OnArrival(request, now_);
    }
  }

  void CancelRequests() {
    if (!cancels_) return;
    const auto progress_of = [&](int32_t request) -> std::optional<CancelProgress> {
      const RequestRecord& record = RecordOf(request);
      if (record.end >= 0) return std::nullopt;
      return CancelProgress{record.first_step >= 0, record.num_output};
    };
    for (const Faults::Cancel& cancel : faults_.TakeCancels(now_, progress_of)) {
      events_.Clear();
      CountCancel(cancel);
      const bool was_live = scheduler_.Cancel(cancel.request, cancel.choice, events_);
      if (observer_ != nullptr) observer_->OnCancel(cancel.request, cancel.choice, was_live);
      TakeEvents();
    }
  }

  void CountCancel(const Faults::Cancel& cancel) {
    const RequestRecord& record = RecordOf(cancel.request);
    FaultCounts& counts = record_.faults;
    counts.first_fault_s = std::min(counts.first_fault_s, now_);
    counts.cancelled_choices += cancel.choice >= 0;
    counts.cancelled_in_flight += !in_flight_.empty();
    if (record.num_output > 0) {
      ++counts.cancelled_decoding;
    } else if (record.first_step >= 0) {
      ++counts.cancelled_prefill;
    } else {
      ++counts.cancelled_waiting;
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
      if (observer_ != nullptr) observer_->OnPlan(planned.step, now_);
      planned.number = record_.num_steps;
      planned.fails = faults_.AbortsStep();
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

  void EndOldest() {
    if (in_flight_.front().fails) {
      AbortSteps();
    } else {
      CommitOldest();
    }
  }

  // Undoes all steps in flight, the newest first. The device has computed all these steps.
  void AbortSteps() {
    now_ = in_flight_.back().end;
    record_.faults.first_fault_s = std::min(record_.faults.first_fault_s, now_);
    for (; !in_flight_.empty(); in_flight_.pop_back()) {
      const PlannedStep& failed = in_flight_.back();
      ++record_.faults.aborted_steps;
      if (observer_ != nullptr) observer_->OnStepEnd(failed.step, true, now_);
      for (const SimItem& item : failed.step.items) {
        RequestRecord& record = RecordOf(item.request);
        if (record.first_step != failed.number || record.end >= 0) continue;
        record.first_step = -1;
        ChangeWaiting(RequestAt(item.request).tenant, 1);
      }
      events_.Clear();
      scheduler_.Abort(events_);
      TakeEvents();
    }
  }

  void CommitOldest() {
    const PlannedStep planned = std::move(in_flight_.front());
    in_flight_.pop_front();
    now_ = planned.end;
    if (observer_ != nullptr) observer_->OnStepEnd(planned.step, false, now_);
    if (const auto item = faults_.PoisonedItem(planned.step)) {
      scheduler_.Poison(*item);
      ++record_.faults.poisoned_rows;
      record_.faults.first_fault_s = std::min(record_.faults.first_fault_s, now_);
      if (observer_ != nullptr) observer_->OnPoison(planned.step, *item);
    }
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
    if (observer_ != nullptr) observer_->OnEvents(events_, now_);
    for (const SimEvents::Admission& admission : events_.admissions) {
      RecordOf(admission.request).cached_tokens = admission.cached_tokens;
      AddService(admission.request, kCachedTokenWeight * admission.cached_tokens);
    }
    // Time of a step that only decodes the present sequences. TokenGap::ratio is the time between
    // two tokens divided by this time.
    const double decode_s = DecodeSeconds(device_, num_decoding_, decoding_positions_);
    for (const SimEvents::Token& token : events_.tokens) TakeToken(token, decode_s);
    for (const SimEvents::End& end : events_.ended) TakeEnd(end);
  }

  int32_t& NumOutput(int32_t request, int32_t choice) {
    return num_output_[static_cast<size_t>(request)][static_cast<size_t>(choice)];
  }

  void TakeToken(const SimEvents::Token& token, double decode_s) {
    RequestRecord& record = RecordOf(token.request);
    if (record.num_output++ == 0) record.first_token = now_;
    if (NumOutput(token.request, token.choice)++ == 0) {
      ++num_decoding_;
      decoding_positions_ += RequestAt(token.request).num_prompt();
    } else if (token.choice == 0) {
      const double gap = now_ - record.last_token;
      record.gaps.push_back({static_cast<float>(gap), static_cast<float>(gap / decode_s)});
    }
    if (token.choice == 0) record.last_token = now_;
    decoding_positions_ += 1;
    AddService(token.request, kOutputTokenWeight);
  }

  void TakeEnd(const SimEvents::End& end) {
    RequestRecord& record = RecordOf(end.request);
    const SimRequest& request = RequestAt(end.request);
    if (const int32_t num_output = NumOutput(end.request, end.choice); num_output > 0) {
      --num_decoding_;
      decoding_positions_ -= request.num_prompt() + num_output;
    }
    if (++record.num_ended < request.num_choices) return;
    record.end = now_;
    record.is_complete = record.num_output == request.output_tokens * request.num_choices;
    record_.end_s = now_;
    ++num_ended_;
    if (record.first_step < 0) ChangeWaiting(request.tenant, -1);
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
  Faults faults_;
  bool cancels_;
  RunObserver* observer_;
  RunRecord record_;
  SimEvents events_;
  std::vector<std::vector<int32_t>> num_output_;  // output tokens of each choice of each request
  std::deque<PlannedStep> in_flight_;             // planned steps, the oldest first
  std::map<uint64_t, int32_t> waiting_;
  double now_ = 0;
  size_t next_arrival_ = 0, num_ended_ = 0;
  // Number of choices that have an output token and have not ended, and the sum of their lengths.
  int64_t num_decoding_ = 0;
  double decoding_positions_ = 0;
};

}  // namespace

RunRecord RunLoad(const DeviceModel& device, const Load& load, SimScheduler& scheduler,
                  const RunOptions& options, RunObserver* observer) {
  return Runner(device, load, scheduler, options, observer).Run();
}

}  // namespace incipit::serving_sim
