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

// Computes the value of keeping a block, from counts of how soon blocks were used again.
//
// The reuse rate of a class of blocks (ReuseClassOf) at an age is the number of blocks used at that
// age, divided by the number of blocks that passed through that age. Blocks in the eviction order
// and evicted blocks that the policy remembers are counted.
//
// The value of a block is its Gittins index (Gittins: "Bandit processes and dynamic allocation
// indices", 1979): the maximum, over all times h, of P(hit within h) / E[min(time until the hit,
// h)]. Unlike the present reuse rate, the value includes uses that are expected later.
//
// The counts are in two life tables: one forgets old counts slowly, and the other forgets old
// counts fast. For each class, the table that predicted the recent uses better has the greater
// weight. Ages are times (PacedClock), in units of the mean time per block use.
class ReuseStatistics {
 public:
  // `capacity` is the number of blocks that the cache holds.
  ReuseStatistics(const TouchClock& clock, const PacedClock& paced_clock, double capacity);

  // Adds blocks of reuse class `reuse_class` that were last used at `stamp` to the blocks that may
  // be used again. `weight` is the total weight of the added blocks.
  void Enter(int reuse_class, TouchClock::Stamp stamp, float weight);
  // Removes blocks of reuse class `reuse_class` that were last used at `stamp` from the blocks that
  // may be used again. `weight` is the total weight of the removed blocks.
  void Leave(int reuse_class, TouchClock::Stamp stamp, float weight);
  // Counts blocks of reuse class `reuse_class` that were used again at an age in the age class
  // (range of ages) `age_class`. `weight` is their total weight. The caller must also call Leave
  // for these blocks.
  void CountReuse(int reuse_class, int age_class, float weight) {
    recent_reused_[static_cast<size_t>(age_class)][static_cast<size_t>(reuse_class)] += weight;
    recent_weight_ += weight;
  }
  // Counts blocks that were not used again before the policy forgot these blocks. `weight` is their
  // total weight. The caller must also call Leave for these blocks.
  void CountForgotten(float weight) { recent_weight_ += weight; }

  // Adds the counts since the previous call to the life tables (block uses by age). The caller must
  // call BeginEpoch when the clock has entered a new epoch. `mean_run` is the mean number of blocks
  // of one reuse class that are used together.
  void BeginEpoch(double mean_run);
  // Computes the values that ValueOf returns, if an epoch has begun since the last computation. The
  // caller must call Refresh before ValueOf. A cache without evictions does not call Refresh and
  // saves the computation.
  void Refresh() {
    if (epochs_to_fit_ > 0) FitAll();
  }
  // Multiplies all counts in the life tables (block uses by age) by `kept`, a number from 0 to 1.
  void Forget(double kept);

  // Returns the value of keeping a block, in hits per unit of age, as computed by the last Refresh.
  float ValueOf(int reuse_class, int age_class) const {
    return values_[static_cast<size_t>(age_class)][static_cast<size_t>(reuse_class)];
  }
  size_t num_bytes() const { return sizeof(*this) + at_risk_.size() * sizeof(Row); }

 private:
  // Number of reuse classes (groups of blocks with similar use, ReuseClassOf). A row with one float
  // for each class fills whole vector registers.
  static constexpr size_t kClasses = kReuseClasses;
  static constexpr size_t kAges = TouchClock::kAges;
  // Number of epochs for which blocks that may be used again are counted separately, by the epoch
  // of their last use.
  static constexpr size_t kEpochs = 1024;
  // Maximum number of epochs between two computations of the reuse rates.
  static constexpr int kEpochsPerFit = 8;
  using Row = std::array<float, kClasses>;
  using AgeTable = std::array<Row, kAges>;  // indexed by [age class][reuse class]

  // A life table: counts of block uses by age class and reuse class, and the reuse rates that
  // follow from the counts.
  struct LifeTable {
    AgeTable reused{};     // total weight of the blocks that were used again, by their age class
    AgeTable exposed{};    // total weight of the blocks that passed through each age class
    AgeTable rate{};       // reuse rates: uses per block that passed through the age class
    Row log_likelihood{};  // for each reuse class: log likelihood of the recent uses, given `rate`
    // Total weight of the blocks that were used again, or that the policy forgot.
    double weight = 0;
    // If `weight` exceeds a limit, all counts of the table are halved. The limit is the total
    // weight of the blocks of capacities_max full caches, plus runs_max groups of blocks that are
    // used together.
    double capacities_max = 0, runs_max = 0;
  };

  bool IsInRing(uint64_t epoch) const { return epoch + kEpochs > epoch_; }
  // Returns the word of the bit mask `occupied_` that contains the bit of `epoch`. The bit is 0 if
  // no block whose last use was in `epoch` may be used again.
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
  uint64_t epoch_;    // latest epoch for which at_risk_ has a row
  double fitted_at_;  // time of paced_clock_ at the last call of BeginEpoch
  // Row e % kEpochs: total weight of the blocks whose last use was in epoch e and that may be used
  // again.
  std::vector<Row> at_risk_;
  std::array<uint64_t, kEpochs / 64> occupied_{};
  // Weight of the blocks that may be used again and were last used before the epochs of at_risk_.
  Row at_risk_before_{};
  // Total weight of the blocks that were used again in the present epoch.
  AgeTable recent_reused_{};
  // Total weight of the blocks that were used again, or that the policy forgot, in the present
  // epoch.
  double recent_weight_ = 0;
  double mean_run_ = 1;
  int epochs_to_fit_ = 0;  // number of epochs that began since the last call of FitAll
  LifeTable slow_, fast_;
  AgeTable values_{};
  // Element a is the lowest age of age class a, in units of age. The last element is the end of the
  // last age class.
  std::array<double, kAges + 1> begins_{};
  std::array<float, kAges> widths_{};
};

}  // namespace incipit
