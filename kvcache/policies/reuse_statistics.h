// Statistics of how soon cached blocks are used again. From these statistics, the adaptive eviction
// policy computes the value of keeping a block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvcache/policies/paced_clock.h"
#include "kvcache/policies/reuse_class.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// Counts how soon cached blocks were used again, and computes the value of keeping a block.
// docs/eviction.md explains the statistics.
//
// The value is the Gittins index of the block (Gittins: "Bandit processes and dynamic allocation
// indices", 1979): the maximum, over all times h, of P(use within h) / E[min(time until the use,
// h)]. P is a probability, and E is an expected value.
class ReuseStatistics {
 public:
  // `capacity` is the maximum number of cached blocks.
  ReuseStatistics(const TouchClock& clock, const PacedClock& paced_clock, double capacity);

  // Counts blocks of the class `reuse_class` (blocks with similar past uses) that were last used at
  // `stamp`. The blocks are cached without users, or are evicted blocks that the policy remembers.
  // `weight` is the sum of 1 / sqrt(n) over the blocks, where n is the number of blocks that were
  // released together.
  void Enter(int reuse_class, TouchClock::Stamp stamp, float weight);
  // Subtracts blocks that Enter() has added. The arguments must be the arguments of Enter() for
  // these blocks.
  void Leave(int reuse_class, TouchClock::Stamp stamp, float weight);
  // Counts blocks of the class `reuse_class` (blocks with similar past uses) that are used again.
  // The time since their previous use was in the range with the index `age_class`. `weight` is the
  // sum of 1 / sqrt(n) over the blocks, where n is the number of blocks that were released
  // together. The caller must also call Leave.
  void CountReuse(int reuse_class, int age_class, float weight) {
    recent_reused_[static_cast<size_t>(age_class)][static_cast<size_t>(reuse_class)] += weight;
    recent_weight_ += weight;
  }
  // Counts evicted blocks that the policy no longer remembers. `weight` is the sum of 1 / sqrt(n)
  // over the blocks, where n is the number of blocks that were released together. The caller must
  // also call Leave.
  void CountForgotten(float weight) { recent_weight_ += weight; }

  // Updates the statistics with the block uses that were counted since the previous call of
  // BeginEpoch(). The caller must call BeginEpoch() whenever TouchClock::epoch() has changed.
  // `mean_run` is the mean length of a run: a range of blocks with similar past uses that one
  // request releases together.
  void BeginEpoch(double mean_run);
  // Computes the values that ValueOf() returns, unless the values are up to date. The caller must
  // call Refresh() before ValueOf().
  void Refresh() {
    if (epochs_to_fit_ > 0) FitAll();
  }
  // Multiplies all counts of past block uses by `kept`, a number from 0 to 1.
  void Forget(double kept);

  // Returns the value of keeping a block of the class `reuse_class` (blocks with similar past
  // uses): the expected number of hits per unit of time. `age_class` is the index of the range that
  // contains the block's age (time since its last use).
  float ValueOf(int reuse_class, int age_class) const {
    return values_[static_cast<size_t>(age_class)][static_cast<size_t>(reuse_class)];
  }
  size_t num_bytes() const { return sizeof(*this) + at_risk_.size() * sizeof(Row); }

 private:
  // Number of classes of blocks with similar past uses.
  static constexpr size_t kClasses = kReuseClasses;
  static constexpr size_t kAges = TouchClock::kAges;
  // Number of epochs (periods with a fixed number of block uses) that at_risk_ counts separately.
  static constexpr size_t kEpochs = 1024;
  // The reuse rates are computed again at the latest after this number of calls of BeginEpoch.
  static constexpr int kEpochsPerFit = 8;
  using Row = std::array<float, kClasses>;
  // A table with one number for each combination of a range of ages (times since the last use) and
  // a class of blocks with similar past uses.
  using AgeTable = std::array<Row, kAges>;

  // Counts of past block uses, and the reuse rates (uses per block) that are computed from these
  // counts. Element [a][k] of each table is for range a of ages (times since the last use) and for
  // class k of blocks with similar past uses.
  struct LifeTable {
    // Element [a][k]: sum of the weights of the blocks of class k (blocks with similar past uses)
    // that were reused at an age (time since the last use) in range a. Each block has the weight
    // 1/sqrt(n), if n blocks were released together.
    AgeTable reused{};
    // Element [a][k]: sum of the weights of the blocks of class k (blocks with similar past uses)
    // whose age (time since the last use) was in range a. Each block has the weight 1/sqrt(n), if n
    // blocks were released together.
    AgeTable exposed{};
    AgeTable rate{};  // estimated uses per block in each range of ages
    // Log likelihood of the recent block uses, under the assumption that `rate` are the true reuse
    // rates (uses per block). Each class of blocks with similar past uses has its own value.
    Row log_likelihood{};
    // Number of blocks that were used again, or that were evicted and are no longer remembered. A
    // block counts 1/sqrt(n), if n blocks were released together.
    double weight = 0;
    // If this table has counted more blocks than a limit, all its counts are halved. The limit is
    // capacities_max * (number of cache blocks) + runs_max * (mean number of blocks that are used
    // together).
    double capacities_max = 0, runs_max = 0;
  };

  bool IsInRing(uint64_t epoch) const { return epoch + kEpochs > epoch_; }
  // Returns the 64-bit word of `occupied_` that contains the bit for `epoch`. The bit is 1 if the
  // statistics contain a block whose last use was in `epoch`.
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
  // Number of the latest epoch (period with a fixed number of block uses) for which at_risk_ has an
  // element.
  uint64_t epoch_;
  double fitted_at_;  // time of paced_clock_ at the last call of BeginEpoch
  // Element [e % kEpochs][k]: sum of the weights of the blocks of class k (blocks with similar past
  // uses) whose last use was in epoch e. An epoch has a fixed number of block uses. Includes cached
  // blocks without users and evicted blocks that the policy remembers. Each block has the weight
  // 1/sqrt(n), if n blocks were released together.
  std::vector<Row> at_risk_;
  std::array<uint64_t, kEpochs / 64> occupied_{};
  // Element k: sum of the weights of the blocks of class k (blocks with similar past uses) whose
  // last use was at least kEpochs epochs ago. An epoch has a fixed number of block uses. Each block
  // has the weight 1/sqrt(n), if n blocks were released together.
  Row at_risk_before_{};
  // Element [a][k]: sum of the weights of the blocks of class k (blocks with similar past uses)
  // that were reused at an age (time since the last use) in range a. Counts since the last call of
  // BeginEpoch. Each block has the weight 1/sqrt(n), if n blocks were released together.
  AgeTable recent_reused_{};
  // Sum of the weights of blocks since the last call of BeginEpoch: reused blocks, and evicted
  // blocks that the policy no longer remembers. Each block has the weight 1/sqrt(n), if n blocks
  // were released together.
  double recent_weight_ = 0;
  double mean_run_ = 1;
  // number of calls of BeginEpoch since the reuse rates were last computed
  int epochs_to_fit_ = 0;
  LifeTable slow_, fast_;
  AgeTable values_{};
  // Element a is the lowest age in age range number a. The age of a block is the time since its
  // last use, in units (a unit is a fixed number of block uses). The last element is the end of the
  // last range.
  std::array<double, kAges + 1> begins_{};
  std::array<float, kAges> widths_{};
};

}  // namespace incipit
