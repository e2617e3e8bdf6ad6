#include "kvcache/policies/reuse_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace incipit {
namespace {

// kPriorWeight: weight of the assumption kRatePrior. kFactorPriorWeight: weight of the assumption
// kUsedPrior. An assumption with weight n has the same effect as n observed groups of blocks.
constexpr float kPriorWeight = 0.5F, kFactorPriorWeight = 96;
// Assumptions before any block use is counted. kRatePrior: uses per block in each range of ages
// (times since the last use). kUsedPrior: uses per block that several requests used, divided by the
// uses per other block.
constexpr float kUsedPrior = 4, kRatePrior = 0.1F;
// kRateMin and kRateMax: minimum and maximum of a reuse rate, the number of uses per block in one
// range of ages (times since the last use). kChanceMax: maximum probability that a block is used in
// one range of ages.
constexpr float kRateMax = 2, kRateMin = 1e-6F, kChanceMax = 0.999F;
// Weight of the smoothing of reuse rates (uses per block). A larger weight makes the reuse rates of
// neighbouring ranges of ages (times since the last use) more similar.
constexpr float kLikeness = 4;

// If the last use of a block was in the latest kYoungEpochs epochs (periods of block uses), the
// exact age of the block is computed. For older blocks, only the range of the age is used.
constexpr size_t kYoungEpochs = 32;

// If the table slow_ has counted more blocks than a limit, all counts in slow_ are halved. The
// limit is kSlowCapacities * (number of cache blocks) + kSlowRuns * (mean number of blocks that are
// used together).
constexpr double kSlowCapacities = 20, kSlowRuns = 4000;
// If the table fast_ has counted more than kFastCapacities * (number of cache blocks) blocks, all
// counts in fast_ are halved. So fast_ forgets old block uses early.
constexpr double kFastCapacities = 1, kFastRuns = 0;

// Constants for the weights of the tables slow_ and fast_. The table that predicted recent block
// uses better has the greater weight.
// - kLikelihoodKept: each update multiplies the log likelihoods of earlier block uses by this
//   factor.
// - kSlowAdvantage: number added to the log likelihood of slow_.
// - kShareMin: the smaller weight is at least about kShareMin times the greater weight.
constexpr float kLikelihoodKept = 0.97F, kSlowAdvantage = 16, kShareMin = 0.02F;

// Returns the sum of the elements of `row`. The four partial sums allow vector instructions.
template <size_t kSize>
float SumOf(const std::array<float, kSize>& row) {
  static_assert(kSize % 4 == 0);
  std::array<float, 4> sums{};
  for (size_t k = 0; k < kSize; k += 4) {
    for (size_t i = 0; i < 4; ++i) sums[i] += row[k + i];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

ReuseStatistics::ReuseStatistics(const TouchClock& clock, const PacedClock& paced_clock,
                                 double capacity)
    : clock_(clock),
      paced_clock_(paced_clock),
      capacity_(capacity),
      epoch_(clock.epoch()),
      fitted_at_(paced_clock.now()),
      at_risk_(kEpochs) {
  slow_.capacities_max = kSlowCapacities;
  slow_.runs_max = kSlowRuns;
  fast_.capacities_max = kFastCapacities;
  fast_.runs_max = kFastRuns;
  for (size_t a = 0; a <= kAges; ++a) begins_[a] = TouchClock::BeginOf(static_cast<int>(a));
  for (size_t a = 0; a < kAges; ++a) {
    widths_[a] = static_cast<float>(begins_[a + 1] - begins_[a]);
  }
  BeginEpoch(1);
  Refresh();
}

void ReuseStatistics::Enter(int reuse_class, TouchClock::Stamp stamp, float weight) {
  const uint64_t epoch = clock_.EpochOf(stamp);
  Row& row = IsInRing(epoch) ? at_risk_[epoch % kEpochs] : at_risk_before_;
  row[static_cast<size_t>(reuse_class)] += weight;
  if (IsInRing(epoch)) OccupiedNear(epoch) |= uint64_t{1} << epoch % 64;
}

void ReuseStatistics::Leave(int reuse_class, TouchClock::Stamp stamp, float weight) {
  const uint64_t epoch = clock_.EpochOf(stamp);
  Row& row = IsInRing(epoch) ? at_risk_[epoch % kEpochs] : at_risk_before_;
  float& at_risk = row[static_cast<size_t>(reuse_class)];
  at_risk = at_risk > weight ? at_risk - weight : 0;
  if (at_risk > 0 || !IsInRing(epoch) || SumOf(row) > 0) return;
  OccupiedNear(epoch) &= ~(uint64_t{1} << epoch % 64);
}

// Returns the smallest n >= `epochs_ago` for which the statistics contain a block that was last
// used n epochs ago. Returns a number >= kEpochs if there is no such block. An epoch is a period
// with a fixed number of block uses.
size_t ReuseStatistics::NextOccupied(size_t epochs_ago) const {
  while (epochs_ago < kEpochs) {
    const size_t slot = (epoch_ - epochs_ago) % kEpochs;
    const size_t num_below = slot % 64;
    const auto skipped =
        static_cast<size_t>(std::countl_zero(occupied_[slot / 64] << (63 - num_below)));
    if (skipped < 64) return epochs_ago + skipped;
    epochs_ago += num_below + 1;
  }
  return epochs_ago;
}

void ReuseStatistics::AdvanceRing() {
  const uint64_t end = clock_.epoch();
  const uint64_t num_new = end - epoch_;
  for (uint64_t i = 1; i <= std::min<uint64_t>(num_new, kEpochs); ++i) {
    Row& row = at_risk_[(epoch_ + i) % kEpochs];
    for (size_t k = 0; k < kClasses; ++k) at_risk_before_[k] += row[k];
    row = {};
    OccupiedNear(epoch_ + i) &= ~(uint64_t{1} << (epoch_ + i) % 64);
  }
  epoch_ = end;
}

void ReuseStatistics::BeginEpoch(double mean_run) {
  AdvanceRing();
  const double now = paced_clock_.now();
  const double units = (now - fitted_at_) * clock_.units_per_touch();
  fitted_at_ = now;
  const AgeTable exposed = RecentlyExposed(units);
  const uint64_t ages = LivelyAges(exposed);
  for (LifeTable* table : {&slow_, &fast_}) {
    Judge(*table, exposed, ages);
    Absorb(*table, exposed, ages, mean_run);
  }
  recent_reused_ = {};
  recent_weight_ = 0;
  mean_run_ = mean_run;
  if (++epochs_to_fit_ == kEpochsPerFit) FitAll();
}

void ReuseStatistics::FitAll() {
  for (LifeTable* table : {&slow_, &fast_}) Fit(*table);
  SetValues(MixedRates());
  epochs_to_fit_ = 0;
}

void ReuseStatistics::Forget(double kept) {
  for (LifeTable* table : {&slow_, &fast_}) Scale(*table, static_cast<float>(kept));
}

void ReuseStatistics::Scale(LifeTable& table, float factor) const {
  for (size_t a = 0; a < kAges; ++a) {
    for (size_t k = 0; k < kClasses; ++k) {
      table.reused[a][k] *= factor;
      table.exposed[a][k] *= factor;
    }
  }
  table.weight *= factor;
}

// Adds `blocks` (number of blocks of each class) to `exposed` for each range of ages in [`begin`,
// `end`). The age of a block is the time since its last use. If only half of a range lies in
// [`begin`, `end`), adds half of `blocks`.
void ReuseStatistics::Expose(AgeTable& exposed, const Row& blocks, double begin, double end) const {
  if (SumOf(blocks) == 0) return;
  begin = std::max(begin, 0.0);
  for (size_t a = 0; a < kAges; ++a) {
    const double from = begins_[a], to = begins_[a + 1];
    if (to <= begin) continue;
    if (from >= end) break;
    const auto part = static_cast<float>((std::min(to, end) - std::max(from, begin)) / widths_[a]);
    for (size_t k = 0; k < kClasses; ++k) exposed[a][k] += part * blocks[k];
  }
}

// Returns a table. Element [a][k] is the number of blocks of class k whose age was in range a since
// the last update. The age of a block is the time since its last use. `units`: time since the last
// update, in the unit of the age ranges.
ReuseStatistics::AgeTable ReuseStatistics::RecentlyExposed(double units) const {
  const auto age_class_of = [this](uint64_t epochs_ago) {
    return static_cast<size_t>(paced_clock_.AgeClass(paced_clock_.AgeOfEpoch(epochs_ago)));
  };
  AgeTable old{};
  old[age_class_of(kEpochs)] = at_risk_before_;
  for (size_t i = NextOccupied(kYoungEpochs); i < kEpochs; i = NextOccupied(i + 1)) {
    Row& sum = old[age_class_of(i)];
    const Row& row = at_risk_[(epoch_ - i) % kEpochs];
    for (size_t k = 0; k < kClasses; ++k) sum[k] += row[k];
  }
  AgeTable exposed{};
  for (size_t a = 0; a < kAges; ++a) {
    const float part = std::min(1.0F, static_cast<float>(units) / widths_[a]);
    for (size_t k = 0; k < kClasses; ++k) exposed[a][k] = part * old[a][k];
  }
  for (size_t i = NextOccupied(0); i < kYoungEpochs; i = NextOccupied(i + 1)) {
    const double age = paced_clock_.AgeOfEpoch(i) * clock_.units_per_touch();
    Expose(exposed, at_risk_[(epoch_ - i) % kEpochs], age - units, age);
  }
  for (size_t a = 0; a < kAges; ++a) {
    const double age = begins_[a] + widths_[a] / 2;
    Expose(exposed, recent_reused_[a], age - units / 2, age);
  }
  return exposed;
}

// Returns a bit mask. Bit a is 1 if the age of any block was in age range a since the last update.
// The age of a block is the time since its last use.
uint64_t ReuseStatistics::LivelyAges(const AgeTable& exposed) const {
  static_assert(kAges <= 64);
  uint64_t ages = 0;
  for (size_t a = 0; a < kAges; ++a) {
    const bool is_lively = SumOf(exposed[a]) + SumOf(recent_reused_[a]) != 0;
    ages |= uint64_t{is_lively} << a;
  }
  return ages;
}

// Measures how well the reuse rates in `table` predicted the block uses since the last update. Adds
// the log likelihood of these uses, as a Poisson process, to table.log_likelihood.
void ReuseStatistics::Judge(LifeTable& table, const AgeTable& exposed, uint64_t ages) const {
  for (float& likelihood : table.log_likelihood) likelihood *= kLikelihoodKept;
  for (; ages != 0; ages &= ages - 1) {
    const auto a = static_cast<size_t>(std::countr_zero(ages));
    for (size_t k = 0; k < kClasses; ++k) {
      const float rate = std::max(table.rate[a][k], kRateMin), reused = recent_reused_[a][k];
      table.log_likelihood[k] -= rate * exposed[a][k];
      if (reused > 0) table.log_likelihood[k] += reused * std::log(rate);
    }
  }
}

void ReuseStatistics::Absorb(LifeTable& table, const AgeTable& exposed, uint64_t ages,
                             double mean_run) const {
  for (; ages != 0; ages &= ages - 1) {
    const auto a = static_cast<size_t>(std::countr_zero(ages));
    for (size_t k = 0; k < kClasses; ++k) {
      table.reused[a][k] += recent_reused_[a][k];
      table.exposed[a][k] += exposed[a][k];
    }
  }
  table.weight += recent_weight_;
  const double root = std::sqrt(mean_run);
  const double weight_max = table.capacities_max * capacity_ / root + table.runs_max * root;
  if (table.weight > weight_max) Scale(table, 0.5F);
}

// Returns the reuse rate (uses per block) of all blocks together, for each range of ages (times
// since the last use).
std::array<float, ReuseStatistics::kAges> ReuseStatistics::PooledRates(const LifeTable& table,
                                                                       float prior_weight) {
  std::array<float, kAges> rates;
  for (size_t a = 0; a < kAges; ++a) {
    const float reused = SumOf(table.reused[a]), exposed = SumOf(table.exposed[a]);
    rates[a] = std::min(kRateMax, (reused + prior_weight * kRatePrior) / (exposed + prior_weight));
  }
  return rates;
}

// Returns a factor for each class of blocks: (counted number of uses) / (number of uses that
// `rates` predicts). `rates` are the reuse rates (uses per block) of all classes together.
ReuseStatistics::Row ReuseStatistics::ClassFactors(const LifeTable& table,
                                                   const std::array<float, kAges>& rates,
                                                   float prior_weight) {
  Row foretold, reused;
  foretold.fill(prior_weight);
  reused.fill(prior_weight);
  for (size_t k = kFirstSharedClass; k < kClasses; ++k) reused[k] *= kUsedPrior;
  for (size_t a = 0; a < kAges; ++a) {
    for (size_t k = 0; k < kClasses; ++k) {
      foretold[k] += table.exposed[a][k] * rates[a];
      reused[k] += table.reused[a][k];
    }
  }
  for (size_t k = 0; k < kClasses; ++k) reused[k] /= foretold[k];
  return reused;
}

// Computes the reuse rates of `table`: uses per block in each range of ages (times since the last
// use). If few uses were counted, neighbouring ranges get similar rates. Solves a tridiagonal
// system of equations.
void ReuseStatistics::Fit(LifeTable& table) const {
  const auto root = static_cast<float>(std::sqrt(mean_run_));
  const float prior_weight = kPriorWeight * root, likeness = kLikeness * root;
  const std::array<float, kAges> pooled = PooledRates(table, prior_weight);
  const Row factors = ClassFactors(table, pooled, kFactorPriorWeight * root);
  AgeTable& rate = table.rate;
  // factor in the equation rate[a][k] = (known number) + coupling[a][k] * rate[a + 1][k]
  AgeTable coupling;
  Row coupling_before{}, rate_before{};
  for (size_t a = 0; a < kAges; ++a) {
    Row prior;
    for (size_t k = 0; k < kClasses; ++k) {
      prior[k] = prior_weight * std::min(kRateMax, factors[k] * pooled[a]);
    }
    const float ends = a == 0 || a + 1 == kAges ? 1 : 2;
    const float weight = prior_weight + ends * likeness;
    for (size_t k = 0; k < kClasses; ++k) {
      const float scale = 1 / (table.exposed[a][k] + weight - likeness * coupling_before[k]);
      coupling[a][k] = likeness * scale;
      rate[a][k] = (table.reused[a][k] + prior[k] + likeness * rate_before[k]) * scale;
    }
    coupling_before = coupling[a];
    rate_before = rate[a];
  }
  for (size_t a = kAges - 1; a-- > 0;) {
    for (size_t k = 0; k < kClasses; ++k) rate[a][k] += coupling[a][k] * rate[a + 1][k];
  }
  for (Row& row : rate) {
    for (float& each : row) each = std::min(kRateMax, each);
  }
  Smooth(rate);
}

void ReuseStatistics::Smooth(AgeTable& rate) const {
  Row before = rate[0];
  for (size_t a = 0; a < kAges; ++a) {
    const Row here = rate[a];
    const Row& after = rate[std::min(a + 1, kAges - 1)];
    for (size_t k = 0; k < kClasses; ++k) {
      rate[a][k] = here[k] / 2 + (before[k] + after[k]) / 4;
    }
    before = here;
  }
}

// Returns weighted means of the reuse rates in slow_ (forgets old uses slowly) and in fast_
// (forgets old uses fast). For each class of blocks, the table that predicted recent uses better
// has the greater weight.
ReuseStatistics::AgeTable ReuseStatistics::MixedRates() const {
  Row fast_share;
  for (size_t k = 0; k < kClasses; ++k) {
    const float lead = fast_.log_likelihood[k] - slow_.log_likelihood[k] - kSlowAdvantage;
    const float odds = std::exp(std::clamp(lead, -30.0F, 30.0F));
    const float share_of_better = odds < 1 ? 1 : odds;
    const float total = 1 + odds + 2 * kShareMin * share_of_better;
    fast_share[k] = (odds + kShareMin * share_of_better) / total;
  }
  AgeTable mixed;
  for (size_t a = 0; a < kAges; ++a) {
    for (size_t k = 0; k < kClasses; ++k) {
      mixed[a][k] = slow_.rate[a][k] + fast_share[k] * (fast_.rate[a][k] - slow_.rate[a][k]);
    }
  }
  return mixed;
}

// Computes values_, the value of keeping a block, for each range of ages and each class of blocks.
// `rate` is the number of uses per block. The values are slopes of the upper convex hull of a
// curve: number of hits against time in the cache.
void ReuseStatistics::SetValues(const AgeTable& rate) {
  struct Point {
    // Totals for the blocks that reach a certain age (time since the last use). `time`: time that
    // the blocks stay in the cache after this age. `hits`: number of hits of the blocks after this
    // age.
    double time, hits;
    double SlopeTo(const Point& later) const { return (hits - later.hits) / (time - later.time); }
    // Returns true if the line from this point to `far` is at least as steep as the line from this
    // point to `near`.
    bool PrefersFar(const Point& near, const Point& far) const {
      return (hits - near.hits) * (time - far.time) <= (hits - far.hits) * (time - near.time);
    }
  };
  for (size_t k = 0; k < kReuseClasses; ++k) {
    // True if the classes k and k - 1 of blocks have the same reuse rate (uses per block) in one
    // range of ages (`row`).
    const auto is_like_last = [k](const Row& row) { return row[k] == row[k - 1]; };
    if (k > 0 && std::ranges::all_of(rate, is_like_last)) {
      for (Row& values : values_) values[k] = values[k - 1];
      continue;
    }
    // Corners of the upper convex hull of the points so far. The point with the highest age is
    // first.
    std::array<Point, kAges + 1> hull;
    size_t size = 0;
    hull[size++] = {.time = 0, .hits = 0};
    Point here = hull[0];
    // Number of blocks that reach age range `a` without a use, divided by the number of blocks that
    // are never used again.
    double survival = 1;
    for (size_t a = kAges; a-- > 0;) {
      const float r = rate[a][k];
      // Probability that a block whose age reaches range a is used within this range. `r` is the
      // reuse rate.
      const double p = std::min(kChanceMax, r / (1 + r / 2));
      survival /= 1 - p;
      here.time += survival * widths_[a] * (1 - p / 2);
      here.hits += survival * p;
      while (size > 1 && here.PrefersFar(hull[size - 1], hull[size - 2])) --size;
      values_[a][k] = static_cast<float>(here.SlopeTo(hull[size - 1]));
      hull[size++] = here;
    }
  }
}

}  // namespace incipit
