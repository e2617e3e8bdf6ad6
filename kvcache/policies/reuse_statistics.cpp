#include "kvcache/policies/reuse_statistics.h"

#include <algorithm>
#include <cmath>

namespace incipit {
namespace {

// What is believed before there is data: of a class, as much as pooled data of all classes say, or
// kUsedPrior times that for blocks that were used again; of all classes, kChancePrior in each age
// class. Weighs as much as the square root of this many runs.
constexpr double kPriorWeight = 1;
constexpr float kUsedPrior = 4, kUsedPriorMax = 0.9F;
constexpr float kChancePrior = 0.1F;
constexpr float kChanceMax = 0.999F, kChanceMin = 1e-6F;
constexpr int kSmoothings = 2;  // with weights 1/4 1/2 1/4 over age classes

// How long the tables remember: see LifeTable.
constexpr double kSlowCapacities = 8, kSlowRuns = 1000;
constexpr double kFastCapacities = 1, kFastRuns = 0;

// Likelihoods fade by this factor an epoch; the fast table must be better by this much (nats)
// before it counts more than the slow one; and no table ever counts less than this.
constexpr float kLikelihoodKept = 0.97F, kSlowAdvantage = 8, kShareMin = 0.02F;

}  // namespace

ReuseStatistics::ReuseStatistics(const TouchClock& clock, double capacity)
    : clock_(clock),
      capacity_(capacity),
      epoch_(clock.epoch()),
      fitted_at_(clock.now()),
      at_risk_(kEpochs),
      age_class_of_epoch_(kEpochs) {
  slow_.capacities_max = kSlowCapacities;
  slow_.runs_max = kSlowRuns;
  fast_.capacities_max = kFastCapacities;
  fast_.runs_max = kFastRuns;
  for (size_t a = 0; a < kAges; ++a) {
    const int age_class = static_cast<int>(a);
    widths_[a] =
        static_cast<float>(TouchClock::BeginOf(age_class + 1) - TouchClock::BeginOf(age_class));
  }
  for (size_t i = 0; i < kEpochs; ++i) {
    const uint64_t middle = i * clock.epoch_touches() + clock.epoch_touches() / 2;
    age_class_of_epoch_[i] = static_cast<uint8_t>(clock.AgeClass(middle));
  }
  BeginEpoch(1);
}

float& ReuseStatistics::AtRisk(int reuse_class, TouchClock::Stamp stamp) {
  const uint64_t epoch = clock_.EpochOf(stamp);
  Row& row = epoch + kEpochs > epoch_ ? at_risk_[epoch % kEpochs] : at_risk_before_;
  return row[static_cast<size_t>(reuse_class)];
}

void ReuseStatistics::AdvanceRing() {
  const uint64_t end = clock_.epoch();
  const uint64_t num_new = end - epoch_;
  for (uint64_t i = 1; i <= std::min<uint64_t>(num_new, kEpochs); ++i) {
    Row& row = at_risk_[(epoch_ + i) % kEpochs];
    for (size_t k = 0; k < kClasses; ++k) at_risk_before_[k] += row[k];
    row = {};
  }
  epoch_ = end;
}

void ReuseStatistics::BeginEpoch(double mean_run) {
  AdvanceRing();
  const AgeTable at_risk = AtRiskByAge();
  const double units = static_cast<double>(clock_.now() - fitted_at_) * clock_.units_per_touch();
  fitted_at_ = clock_.now();
  for (LifeTable* table : {&slow_, &fast_}) {
    Judge(*table, at_risk, units);
    Absorb(*table, mean_run);
    Fit(*table, at_risk, mean_run);
  }
  recent_reused_ = recent_forgotten_ = {};
  SetValues(MixedChances());
}

void ReuseStatistics::Forget(double kept) {
  for (LifeTable* table : {&slow_, &fast_}) Scale(*table, static_cast<float>(kept));
}

void ReuseStatistics::Scale(LifeTable& table, float factor) const {
  for (size_t a = 0; a < kAges; ++a) {
    for (size_t k = 0; k < kClasses; ++k) {
      table.reused[a][k] *= factor;
      table.forgotten[a][k] *= factor;
    }
  }
  table.weight *= factor;
}

// What is at risk now, by age.
ReuseStatistics::AgeTable ReuseStatistics::AtRiskByAge() const {
  AgeTable by_age{};
  const uint64_t oldest = kEpochs * uint64_t{clock_.epoch_touches()};
  by_age[static_cast<size_t>(clock_.AgeClass(oldest))] = at_risk_before_;
  for (size_t i = 0; i < kEpochs; ++i) {
    const Row& row = at_risk_[(epoch_ - i) % kEpochs];
    Row& sum = by_age[age_class_of_epoch_[i]];
    for (size_t k = 0; k < kClasses; ++k) sum[k] += row[k];
  }
  return by_age;
}

// The likelihood of the uses since the last epoch as those of a Poisson process: by what the table
// said then of the rates, and how much was at risk for how long.
void ReuseStatistics::Judge(LifeTable& table, const AgeTable& at_risk, double units) const {
  for (float& likelihood : table.log_likelihood) likelihood *= kLikelihoodKept;
  for (size_t a = 0; a < kAges; ++a) {
    for (size_t k = 0; k < kClasses; ++k) {
      const float reused = recent_reused_[a][k], exposed = at_risk[a][k];
      if (reused == 0 && exposed == 0) continue;
      const float p = std::clamp(table.chance[a][k], kChanceMin, kChanceMax);
      // -log(1 - p), by its series where that is exact enough.
      const float hazard =
          p < 0.3F ? p * (1 + p * (0.5F + p * (1.0F / 3 + p / 4))) : -std::log1p(-p);
      const float rate = hazard / widths_[a];
      table.log_likelihood[k] -= rate * exposed * static_cast<float>(units);
      if (reused > 0) table.log_likelihood[k] += reused * std::log(rate);
    }
  }
}

void ReuseStatistics::Absorb(LifeTable& table, double mean_run) const {
  const double root = std::sqrt(mean_run);
  for (size_t a = 0; a < kAges; ++a) {
    for (size_t k = 0; k < kClasses; ++k) {
      table.reused[a][k] += recent_reused_[a][k];
      table.forgotten[a][k] += recent_forgotten_[a][k];
      table.weight += recent_reused_[a][k] + recent_forgotten_[a][k];
    }
  }
  const double weight_max = table.capacities_max * capacity_ / root + table.runs_max * root;
  if (table.weight > weight_max) Scale(table, 0.5F);
}

void ReuseStatistics::Fit(LifeTable& table, const AgeTable& at_risk, double mean_run) const {
  const auto prior_weight = static_cast<float>(kPriorWeight * std::sqrt(mean_run));
  float reached_pooled = 0;  // weight that has lived through the age class
  Row reached{};
  for (size_t a = kAges; a-- > 0;) {
    float reused = 0, censored = 0;
    for (size_t k = 0; k < kClasses; ++k) {
      reused += table.reused[a][k];
      censored += table.forgotten[a][k] + at_risk[a][k];
    }
    const float pooled = (reused + prior_weight * kChancePrior) /
                         (reached_pooled + reused + censored / 2 + prior_weight);
    reached_pooled += reused + censored;
    const float used_prior = std::min(kUsedPriorMax, kUsedPrior * pooled);
    for (size_t k = 0; k < kClasses; ++k) {
      const float r = table.reused[a][k], c = table.forgotten[a][k] + at_risk[a][k];
      const float prior = k >= kFirstSharedClass ? used_prior : std::min(kUsedPriorMax, pooled);
      const float p = (r + prior_weight * prior) / (reached[k] + r + c / 2 + prior_weight);
      table.chance[a][k] = std::min(kChanceMax, p);
      reached[k] += r + c;
    }
  }
  for (int i = 0; i < kSmoothings; ++i) Smooth(table.chance);
}

void ReuseStatistics::Smooth(AgeTable& chance) const {
  Row before = chance[0];
  for (size_t a = 0; a < kAges; ++a) {
    const Row here = chance[a];
    const Row& after = chance[std::min(a + 1, kAges - 1)];
    for (size_t k = 0; k < kClasses; ++k) {
      chance[a][k] = here[k] / 2 + (before[k] + after[k]) / 4;
    }
    before = here;
  }
}

// Chances as of both tables, each class by who foretold it better.
ReuseStatistics::AgeTable ReuseStatistics::MixedChances() const {
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
      mixed[a][k] = slow_.chance[a][k] + fast_share[k] * (fast_.chance[a][k] - slow_.chance[a][k]);
    }
  }
  return mixed;
}

// For a block of age a and a horizon x, chance of a hit and expected time are sums of
// S(y) p(y) and S(y) times the width of y over the ages y from a to x, divided by S(a), where S(y)
// is the chance to live to y. So the index is the steepest slope from a to a later point of the
// curve of these sums, which the upper hull of the curve gives for all ages in one pass from the
// end. S is scaled so that it ends in 1: then no sum loses what is small.
void ReuseStatistics::SetValues(const AgeTable& chance) {
  struct Point {
    double time = 0, hits = 0;  // from here to the end
    double SlopeTo(const Point& later) const { return (hits - later.hits) / (time - later.time); }
    // Whether the slope to `near` is no steeper than that to `far`.
    bool PrefersFar(const Point& near, const Point& far) const {
      return (hits - near.hits) * (time - far.time) <= (hits - far.hits) * (time - near.time);
    }
  };
  for (size_t k = 0; k < kReuseClasses; ++k) {
    std::array<Point, kAges + 1> hull;  // the last is the nearest
    size_t size = 0;
    hull[size++] = {};
    Point here;
    double survival = 1;
    for (size_t a = kAges; a-- > 0;) {
      const double p = chance[a][k];
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
