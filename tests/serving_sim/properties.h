// Checks the guarantees of Incipit's scheduler during a run of the simulation with time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/serving_sim/own_scheduler.h"
#include "tests/serving_sim/run.h"

namespace incipit::serving_sim {

// Observes a run and checks these properties:
// - Each choice of each request ends exactly once, for a reason that the run has caused.
// - A step has at most step_tokens_max tokens, and at most running_max sequences hold blocks.
// - At most kOvertakenMax later requests of a tenant start before a request of this tenant. Does
//   not count steps in which the request waits for a prefix that a running request computes, if
//   this or the previous step has tokens of the running request.
// - If a request waits and could start, each step computes prompt tokens or preempts a sequence
//   (CheckAdmission). A request cannot start if running_max sequences run, or if the head does not
//   fit into the cache.
// - With kFair, while a request waits, no other tenant receives more service than the tenant of the
//   request plus service_gap_max.
// - After the run, the scheduler has no request and the cache has no block in use.
//
// A request starts with its first committed step.
class PropertyChecks : public RunObserver {
 public:
  // REQUIRES: `load` and `scheduler` outlive this object.
  PropertyChecks(const Load& load, const OwnScheduler& scheduler);

  void OnArrival(int32_t request, double now) override;
  void OnPlan(const SimStep& step, double now) override;
  void OnStepEnd(const SimStep& step, bool failed, double now) override;
  void OnPoison(const SimStep& step, size_t item) override;
  void OnCancel(int32_t request, int32_t choice, bool was_live) override;
  void OnEvents(const SimEvents& events, double now) override;

  // Checks the state after the run. Returns the first error of the run, or an empty string.
  std::string Finish();

  // Largest number of later requests of one tenant that started before a request of this tenant.
  int32_t overtakes_max() const { return overtakes_max_; }
  // The same number, for later requests of all tenants. 0 with SchedulingKind::kFair, because the
  // order of requests of different tenants then does not depend on their times of arrival.
  int32_t passes_max() const { return passes_max_; }

 private:
  struct Choice {
    int32_t num_output = 0;
    bool is_cancelled = false, has_ended = false;
  };
  // Order in which the requests of a tenant start: the time of arrival minus the priority times the
  // aging interval, and the index.
  using Key = std::pair<Time, int32_t>;
  struct Progress {
    Key key;
    std::vector<Choice> choices;
    bool has_arrived = false, has_started = false, is_poisoned = false, has_ended = false;
    int32_t num_overtaken = 0, num_passed = 0;
    int32_t num_prompt_computed = 0;  // leading prompt tokens that were computed at least once
    // Number of requests that had arrived when the first step of this request was planned; 0: no
    // step is planned.
    int32_t num_arrived = 0;
    size_t tenant = 0;  // index in `services_`
    // Services of all tenants at the arrival of the request.
    std::vector<double> services_before;
  };

  Progress& At(int32_t request) { return progress_[static_cast<size_t>(request)]; }
  const SimRequest& RequestAt(int32_t request) const {
    return load_.requests[static_cast<size_t>(request)];
  }
  void Expect(bool holds, int32_t request, const char* error);
  void CheckEnd(const SimEvents::End& end, double now);
  void NoteWaitsForPrefix(const SimStep& step);
  void CountOvertakes(int32_t started, const std::set<int32_t>& not_overtaken);
  void AddService(int32_t request, double service) { services_[At(request).tenant] += service; }
  void AddPromptService(const SimItem& item);
  void CheckService(int32_t request);
  void CheckAdmission(const SimStep& step);
  double service_gap_max() const;

  const Load& load_;
  const OwnScheduler& scheduler_;
  std::vector<Progress> progress_;
  // Keys of the requests that have arrived, and have not started or ended, by tenant.
  std::map<uint64_t, std::set<Key>> waiting_;
  // For each step in flight: the requests that wait for a prefix whose computation advances.
  std::deque<std::set<int32_t>> wait_for_prefix_;
  // For each request that waited for a prefix after the latest plan: the request that computes it.
  std::map<int32_t, int32_t> producers_;
  std::set<int32_t> computed_before_;  // requests with tokens in the latest planned step
  std::string error_;
  int32_t num_arrived_ = 0;  // the requests [0, num_arrived_) have arrived
  int32_t overtakes_max_ = 0, passes_max_ = 0;
  // Service of each tenant in all committed steps.
  std::vector<double> services_;
  // Number of the request that was the head in the latest step and did fit into the cache; -1: the
  // head did not fit.
  int64_t fitting_head_ = -1;
};

// Also counts how often the blocks of a prefix are computed.
class PrefixCount : public PropertyChecks {
 public:
  // Counts the blocks of the tokens `prefix`, in all prompts that begin with `prefix`. REQUIRES:
  // `prefix` consists of full blocks.
  PrefixCount(const Load& load, const OwnScheduler& scheduler, std::vector<TokenId> prefix);

  void OnStepEnd(const SimStep& step, bool failed, double now) override;
  void OnPoison(const SimStep& step, size_t item) override;

  // Largest number of committed steps that completed one block of the prefix.
  int32_t computed_max() const;
  // Number of requests with the prefix whose logits were not finite. Such a request makes the
  // blocks of the prefix unfindable, so that other requests compute the prefix again.
  int32_t num_poisoned() const { return num_poisoned_; }

 private:
  bool HasPrefix(int32_t request) const;

  const Load& load_;
  const std::vector<TokenId> prefix_;
  int32_t block_size_;
  std::vector<int32_t> num_computed_;  // for each block of the prefix
  int32_t num_poisoned_ = 0;
};

}  // namespace incipit::serving_sim
