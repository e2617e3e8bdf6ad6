// The statistics of the adaptive policy: how soon blocks are used again, and the value of keeping a
// block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvcache/policies/paced_clock.h"
#include "kvcache/policies/reuse_class.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// A block is at risk (of being used again) from its entry into the eviction order until the block
// is used or forgotten. A block at risk is first a cached block, and after its eviction a ghost (an
// evicted block that the policy remembers). The reuse rate of a class and an age is a ratio of two
// counts of the same period. The first count is the number of blocks used at that age. The second
// count is the number of blocks that passed through that age. The rates are a period life table:
// the reuse of a block at a younger age has no effect on the present rates. The rates are therefore
// right soon after the workload changes.
//
// The value of a block is its Gittins index (Gittins: "Bandit processes and dynamic allocation
// indices", 1979). The value is the maximum, over all horizons h, of P(hit within h) / E[min(time
// until the hit, h)]. The reward is a hit, and the cost is the time for which the block occupies
// memory. Unlike the present reuse rate, the value includes uses that are expected later.
//
// Ages are times (PacedClock), stated in touches (uses of single blocks), because the pauses of
// users do not depend on the load of the server.
//
// There are two life tables, one that forgets slowly and one that forgets fast. For each class, the
// table that predicted the recent uses with the higher likelihood has the greater weight. Whole
// workloads may change at once, and classes may change one by one.
class ReuseStatistics {
 public:
  // `capacity` is the number of blocks that the cache holds.
  ReuseStatistics(const TouchClock& clock, const PacedClock& paced_clock, double capacity);

  // Adds blocks of class `reuse_class` that were last used at `stamp` to the blocks at risk of
  // reuse. `weight` is the total weight of the added blocks.
  void Enter(int reuse_class, TouchClock::Stamp stamp, float weight);
  // Removes blocks of class `reuse_class` that were last used at `stamp` from the blocks at risk of
  // reuse. `weight` is the total weight of the removed blocks.
  void Leave(int reuse_class, TouchClock::Stamp stamp, float weight);
  // Counts the reuse of blocks that had the class `reuse_class` and an age in `age_class`. The
  // caller must also remove these blocks from the blocks at risk of reuse (Leave).
  void CountReuse(int reuse_class, int age_class, float weight) {
    recent_reused_[static_cast<size_t>(age_class)][static_cast<size_t>(reuse_class)] += weight;
    recent_weight_ += weight;
  }
  // Counts blocks that the policy forgot without a reuse. The caller must also remove these blocks
  // from the blocks at risk of reuse (Leave).
  void CountForgotten(float weight) { recent_weight_ += weight; }

  // Adds the counts of the past epoch to the life tables. `mean_run` is the mean number of blocks
  // of one class that are used together. The caller must call BeginEpoch when the clock has entered
  // a new epoch. The results of ValueOf change only after BeginEpoch.
  void BeginEpoch(double mean_run);
  // Computes the values that ValueOf returns, unless these values were already computed in this
  // epoch. The caller must call Refresh before ValueOf. A cache without evictions therefore
  // computes values only once in kEpochsPerFit epochs.
  void Refresh() {
    if (epochs_to_fit_ > 0) FitAll();
  }
  // Multiplies all counts of uses and blocks by `kept`, a share from 0 to 1.
  void Forget(double kept);

  // Returns the value of keeping a block, in hits per unit of age, as computed by the last Refresh.
  float ValueOf(int reuse_class, int age_class) const {
    return values_[static_cast<size_t>(age_class)][static_cast<size_t>(reuse_class)];
  }
  size_t num_bytes() const { return sizeof(*this) + at_risk_.size() * sizeof(Row); }

 private:
  // Number of reuse classes; a row of classes fills whole vector registers.
  static constexpr size_t kClasses = kReuseClasses;
  static constexpr size_t kAges = TouchClock::kAges;
  // Number of recent epochs for which blocks at risk are counted separately by their last use.
  static constexpr size_t kEpochs = 1024;
  // Number of epochs after which reuse rates are computed even without Refresh, because later uses
  // are compared with the predicted rates.
  static constexpr int kEpochsPerFit = 8;
  using Row = std::array<float, kClasses>;
  using AgeTable = std::array<Row, kAges>;  // indexed by [age class][reuse class]

  // A life table: counts of block uses by age class and reuse class, and the reuse rates that
  // follow from the counts.
  struct LifeTable {
    AgeTable reused{};     // number of blocks that were used at an age in this age class
    AgeTable exposed{};    // number of blocks that passed through this age class
    AgeTable rate{};       // uses per block in an age class, from the last call of Fit
    Row log_likelihood{};  // per reuse class: log likelihood of the recent uses under `rate`
    double weight = 0;     // total weight of all blocks that were used again or forgotten
    // The counts are halved if `weight` exceeds a limit. The limit is the weight of all blocks of
    // capacities_max full caches plus runs_max groups of blocks that are used together.
    double capacities_max = 0, runs_max = 0;
  };

  bool IsInRing(uint64_t epoch) const { return epoch + kEpochs > epoch_; }
  // Returns the word of `occupied_` that has the bit of `epoch`. The bit is 1 if at_risk_ may be
  // nonzero for `epoch`.
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
  uint64_t epoch_;            // latest epoch that has a row in at_risk_
  double fitted_at_;          // time of paced_clock_ at the last BeginEpoch
  std::vector<Row> at_risk_;  // weight of blocks at risk of reuse, by [epoch of last use % kEpochs]
  std::array<uint64_t, kEpochs / 64> occupied_{};
  Row at_risk_before_{};      // blocks at risk whose last use is before the epochs of at_risk_
  AgeTable recent_reused_{};  // weight of the reused blocks in the present epoch
  double recent_weight_ = 0;  // weight of the reused and the forgotten blocks in the present epoch
  double mean_run_ = 1;
  int epochs_to_fit_ = 0;  // number of epochs that began since the last FitAll
  LifeTable slow_, fast_;
  AgeTable values_{};
  // Lowest age of each age class, then the end of the last, in units of age.
  std::array<double, kAges + 1> begins_{};
  std::array<float, kAges> widths_{};
};

}  // namespace incipit
