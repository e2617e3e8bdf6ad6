// Declares a simulation of the scheduler and the cache. simulation.cpp contains the steps of the
// simulation, and simulation_checks.cpp contains the checks.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/batch.h"
#include "scheduler/scheduler.h"
#include "tests/sim/expected_request.h"
#include "tests/sim/simulation.h"
#include "tests/support/event_mirror.h"
#include "tests/support/fake_runner.h"
#include "tests/support/fake_tier.h"

namespace incipit {

inline constexpr int32_t kVocab = 50;

// A random number generator that returns the same numbers on every platform.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  // Returns a number in [lo, hi], both bounds included.
  int32_t Pick(int32_t lo, int32_t hi) {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return lo + static_cast<int32_t>(z % (static_cast<uint64_t>(hi - lo) + 1));
  }
  bool Chance(int32_t percent) { return Pick(0, 99) < percent; }

 private:
  uint64_t state_;
};

// Probability of each kind of event in percent. Each kind has probability 0 in some simulations,
// because one kind of event may hide a fault that another kind causes.
struct Rates {
  int32_t arrival = 30, cancel = 0, cancel_in_flight = 0, abort = 0, poison = 0, reset = 0;
  int32_t deadline = 0, choices = 0, priority = 0, logprobs = 0, prompt_logprobs = 0;
  int32_t penalties = 0, no_read = 0, stop = 50, minimum = 0;
  // Probabilities in percent of salted namespaces, of EvictTo calls, and of three kinds of
  // retention hints. The kinds are a low priority, a high priority or a pin, and a time to live.
  int32_t salt = 0, evict = 0, low = 0, high = 0, life = 0;
};

class Simulation {
 public:
  Simulation(uint64_t seed, SimulationCounts& counts);
  std::string Run();

 private:
  void Expect(bool condition, std::string_view message) {
    if (!condition && error_.empty()) error_ = message;
  }
  void RandomizeCache();
  void RandomizeRates();
  Request RandomRequest();
  Retention RandomHint();
  void SubmitOne();
  void CancelOne();
  void MaybeReset();
  void MaybeEvict();
  void RandomizeTier();
  void Step();
  void PlanAndLaunch();
  void FinishOldest();
  void PlanAndCheck();
  int32_t NumBlocksNeeded(const std::vector<Sequence*>& sequences) const;
  void CheckBudgets();
  void CheckComputedOnce();
  void CheckOrder(const std::vector<Sequence*>& running_before);
  void CheckHeld();
  void CheckCache();
  void CheckEvents();
  void CheckMiss(const ExpectedRequest& request, const AdmissionEvent& event);
  void TakeEvents();
  void CheckSource(const ExpectedRequest& request, int32_t num_cached);
  bool HasComputed(const ExpectedRequest& request, int32_t num_tokens);
  void CheckGone(const ExpectedRequest& request);
  void CheckEnd();
  void CheckLastIsThere();
  void CheckAllCanBeTaken();

  Dice dice_;
  SimulationCounts& counts_;
  Rates rates_;
  KvCacheOptions cache_options_;
  KvCacheSeams seams_;
  SchedulerOptions limits_;
  std::unique_ptr<KvCacheManager> cache_;
  std::unique_ptr<FakeTier> tier_;  // null: no tier
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<FakeRunner> runner_;
  struct StepInFlight {
    StepPlan plan;
    BatchBuilder builder;
    incipit::Step step;
    bool aborts = false;
  };
  std::array<StepInFlight, 2> steps_;
  // Index of the oldest step in flight in `steps_`. If no step is in flight, the next step uses
  // this entry.
  size_t oldest_ = 0;
  StepPlan* plan_ = nullptr;  // the latest plan
  // Sequences that counted as passing before the latest plan: they started before an earlier
  // sequence that did not fit into the cache.
  std::set<const Sequence*> was_passing_;
  // Sequences that waited for the next part of their loads before the latest plan.
  std::set<const Sequence*> was_paused_;
  StepResult result_;

  std::vector<std::vector<TokenId>> prefixes_;
  // Number of distinct tokens in prompts. If it is small, blocks with equal tokens often follow
  // different prefixes.
  int32_t alphabet_ = 2;
  // True: the keys of cache blocks have only 1 to 8 bits, so different blocks often have equal
  // keys.
  bool collides_ = false;
  bool listens_ = false;
  bool times_steps_ = false;  // true: the scheduler gets random durations of steps
  EventMirror mirror_;
  int32_t arrivals_left_ = 0;
  uint64_t next_id_ = 1;
  Time now_{};
  std::map<uint64_t, ExpectedRequest> live_;
  // Number of requests that were added to the scheduler and that TakeEnded has not returned.
  int64_t num_groups_ = 0;
  KvCacheStats stats_;
  int64_t hits_reported_ = 0, queries_reported_ = 0;
  // The prompt and the expected output of one choice.
  struct Text {
    RequestId request{};
    std::vector<TokenId> tokens;
  };
  std::map<RequestId, std::string> namespaces_;
  std::vector<Text> texts_;
  // Tokens of the choice that was the last to end by a stop token or its length limit.
  std::vector<TokenId> last_finished_;
  CacheNamespace last_namespace_;
  bool poisoned_ = false;
  std::string error_;
};

}  // namespace incipit
