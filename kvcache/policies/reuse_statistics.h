// What the adaptive policy learns: when blocks are used again, and so what keeping one is worth.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvcache/policies/paced_clock.h"
#include "kvcache/policies/reuse_class.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// Blocks are at risk of being used again from when they enter the order of eviction, as cached
// blocks and then as ghosts, until they are used or forgotten. How many were used at what age, by
// how many passed through that age meanwhile, is the rate at which blocks of a class and an age
// are used (a life table of a period, as against one of a generation: what held when old blocks
// were young does not weigh on it, so it is right as soon as the workload has changed).
//
// What keeping a block is worth is its Gittins index (Gittins: "Bandit processes and dynamic
// allocation indices", 1979; here the reward is a hit and the cost is the time that a place is
// taken): the best, over all horizons, of the chance of a hit within the horizon by the expected
// time until the hit or the horizon, whichever is first. Unlike the present rate of reuse, it sees
// that a block whose use lies some time ahead is worth the wait, or is not.
//
// Ages are times (PacedClock), stated in touches: after what time users come back does not depend
// on how much others use meanwhile.
//
// Two such tables are kept, one that forgets slowly and one that forgets fast, and for each class
// the one counts that has foretold the recent uses better, by likelihood: workloads change at once,
// and classes change one by one.
class ReuseStatistics {
 public:
  // `capacity`: blocks that the cache holds.
  ReuseStatistics(const TouchClock& clock, const PacedClock& paced_clock, double capacity);

  // Blocks last used at `stamp`, of together this weight, are at risk, or no longer.
  void Enter(int reuse_class, TouchClock::Stamp stamp, float weight);
  void Leave(int reuse_class, TouchClock::Stamp stamp, float weight);
  // Those that left were used again, or forgotten without a use.
  void CountReuse(int reuse_class, int age_class, float weight) {
    recent_reused_[static_cast<size_t>(age_class)][static_cast<size_t>(reuse_class)] += weight;
    recent_weight_ += weight;
  }
  void CountForgotten(float weight) { recent_weight_ += weight; }

  // To be called when the clock has entered a new epoch: values change only with that. `mean_run`:
  // how many blocks are used together that have the same class.
  void BeginEpoch(double mean_run);
  // To be called before values are asked for: works them out, unless that has been done in this
  // epoch. So a cache that gives nothing up does not pay for them.
  void Refresh() {
    if (epochs_to_fit_ > 0) FitAll();
  }
  // Keeps only this share of what was counted.
  void Forget(double kept);

  // What keeping a block is worth: hits per unit of age. As of the last Refresh.
  float ValueOf(int reuse_class, int age_class) const {
    return values_[static_cast<size_t>(age_class)][static_cast<size_t>(reuse_class)];
  }
  size_t num_bytes() const { return sizeof(*this) + at_risk_.size() * sizeof(Row); }

 private:
  static constexpr size_t kClasses = kReuseClasses;  // whole vector registers
  static constexpr size_t kAges = TouchClock::kAges;
  // Epochs of last use that are told apart.
  static constexpr size_t kEpochs = 1024;
  // Where nobody asks for values, rates are worked out once in so many epochs all the same, as
  // those to come are judged by them.
  static constexpr int kEpochsPerFit = 8;
  using Row = std::array<float, kClasses>;
  using AgeTable = std::array<Row, kAges>;  // [age class][reuse class]

  // One life table.
  struct LifeTable {
    AgeTable reused{};     // how many were used
    AgeTable exposed{};    // of how many that passed through the age
    AgeTable rate{};       // of uses while an age class lasts, as of the last fit
    Row log_likelihood{};  // of the recent uses, as foretold
    double weight = 0;     // of all that was used or forgotten
    // It halves its counts when they weigh more than this many caches full of blocks and this many
    // runs.
    double capacities_max = 0, runs_max = 0;
  };

  bool IsInRing(uint64_t epoch) const { return epoch + kEpochs > epoch_; }
  // What of at_risk_ may be other than zero, a bit an epoch.
  uint64_t& OccupiedNear(uint64_t epoch) { return occupied_[epoch % kEpochs / 64]; }
  size_t NextOccupied(size_t epochs_ago) const;
  void AdvanceRing();
  void FitAll();
  AgeTable RecentlyExposed(double units) const;
  void Expose(AgeTable& exposed, const Row& blocks, double begin, double end) const;
  uint64_t LivelyAges(const AgeTable& exposed) const;
  void Judge(LifeTable& table, const AgeTable& exposed, uint64_t ages) const;
  void Absorb(LifeTable& table, const AgeTable& exposed, uint64_t ages, double mean_run) const;
  void Scale(LifeTable& table, float factor) const;
  static std::array<float, kAges> PooledRates(const LifeTable& table, float prior_weight);
  static Row ClassFactors(const LifeTable& table, const std::array<float, kAges>& rates,
                          float prior_weight);
  void Fit(LifeTable& table) const;
  void Smooth(AgeTable& rate) const;
  AgeTable MixedRates() const;
  void SetValues(const AgeTable& rate);

  const TouchClock& clock_;
  const PacedClock& paced_clock_;
  double capacity_;
  uint64_t epoch_;            // that the ring has been brought to
  double fitted_at_;          // by the paced clock
  std::vector<Row> at_risk_;  // [epoch of last use % kEpochs]
  std::array<uint64_t, kEpochs / 64> occupied_{};
  Row at_risk_before_{};      // of last use before those
  AgeTable recent_reused_{};  // since the last epoch
  double recent_weight_ = 0;  // used or forgotten since
  double mean_run_ = 1;
  int epochs_to_fit_ = 0;  // that have begun since the last fit
  LifeTable slow_, fast_;
  AgeTable values_{};
  std::array<double, kAges + 1> begins_{};  // of age classes, in units, and the end of the last
  std::array<float, kAges> widths_{};
};

}  // namespace incipit
