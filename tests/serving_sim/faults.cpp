#include "tests/serving_sim/faults.h"

#include <algorithm>

namespace incipit::serving_sim {
namespace {

// Share of the cancels of requests with several choices that end one choice only.
constexpr double kOneChoice = 0.6;

}  // namespace

FaultCounts& FaultCounts::operator+=(const FaultCounts& other) {
  aborted_steps += other.aborted_steps;
  poisoned_rows += other.poisoned_rows;
  cancelled_waiting += other.cancelled_waiting;
  cancelled_prefill += other.cancelled_prefill;
  cancelled_decoding += other.cancelled_decoding;
  cancelled_choices += other.cancelled_choices;
  cancelled_in_flight += other.cancelled_in_flight;
  first_fault_s = std::min(first_fault_s, other.first_fault_s);
  return *this;
}

Faults::Faults(const FaultOptions& options, const Load& load)
    : options_(options),
      steps_(Mix(options.seed, 1)),
      rows_(Mix(options.seed, 2)),
      times_(Mix(options.seed, 3)),
      planned_(load.requests.size()) {
  Random random(Mix(options.seed, 4));
  for (size_t i = 0; i < planned_.size(); ++i) {
    if (random.Uniform() >= options.cancel) continue;
    const SimRequest& request = load.requests[i];
    auto moment = static_cast<Moment>(random.Pick(0, 2));
    if (options.cancelling_tenant != 0) {
      if (request.tenant != options.cancelling_tenant) continue;
      moment = Moment::kPrefill;
    }
    PlannedCancel cancel = {.cancel = {.request = static_cast<int32_t>(i)}, .moment = moment};
    if (request.num_choices > 1 && random.Uniform() < kOneChoice) {
      cancel.cancel.choice = random.Pick(0, request.num_choices - 1);
    }
    // Half of the cancels before the first step come at once.
    const double delay = random.Pick(0, 1) * random.Exponential(1);
    if (moment == Moment::kWaiting) cancel.not_before = request.arrival + delay;
    cancel.num_output = random.Pick(1, request.output_tokens * request.num_choices);
    planned_[i] = cancel;
  }
}

bool Faults::AbortsStep() { return options_.abort > 0 && steps_.Uniform() < options_.abort; }

std::optional<size_t> Faults::PoisonedItem(const SimStep& step) {
  if (options_.poison == 0 || rows_.Uniform() >= options_.poison) return std::nullopt;
  std::vector<size_t> sampling;
  for (size_t i = 0; i < step.items.size(); ++i) {
    if (step.items[i].num_samples > 0) sampling.push_back(i);
  }
  if (sampling.empty()) return std::nullopt;
  return sampling[static_cast<size_t>(rows_.Pick(0, static_cast<int32_t>(sampling.size()) - 1))];
}

void Faults::OnArrival(int32_t request) {
  const auto& planned = planned_[static_cast<size_t>(request)];
  if (planned) active_.push_back(*planned);
}

bool Faults::IsDue(const PlannedCancel& planned, double now, const CancelProgress& progress) {
  switch (planned.moment) {
    case Moment::kWaiting:
      return now >= planned.not_before;
    case Moment::kPrefill:
      return progress.has_started && times_.Pick(0, 1) == 0;
    case Moment::kDecoding:
      return progress.num_output >= planned.num_output;
  }
  return false;
}

}  // namespace incipit::serving_sim
