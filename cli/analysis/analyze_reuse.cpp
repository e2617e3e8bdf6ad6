#include "cli/analysis/analyze_reuse.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

// A set of numbers in [0, size), stored as a Fenwick tree. CountFrom(n) returns how many numbers of
// the set are at least n, in O(log size).
class MarkCounts {
 public:
  explicit MarkCounts(size_t size) : counts_(size + 1) {}

  void Set(size_t position) { Add(position, 1); }
  void Unset(size_t position) { Add(position, ~uint32_t{0}); }
  int64_t num_marks() const { return num_marks_; }
  int64_t CountFrom(size_t position) const {
    uint32_t before = 0;
    for (size_t i = position; i > 0; i &= i - 1) before += counts_[i];
    return num_marks_ - before;
  }

 private:
  void Add(size_t position, uint32_t change) {
    num_marks_ += static_cast<int32_t>(change);
    for (size_t i = position + 1; i < counts_.size(); i += i & (~i + 1)) counts_[i] += change;
  }

  std::vector<uint32_t> counts_;
  int64_t num_marks_ = 0;
};

// Orders the blocks by their last use. Each block in each prompt counts as one block use.
class LruStack {
 public:
  LruStack(size_t num_nodes, size_t num_uses) : marks_(num_uses), position_(num_nodes, kNever) {}

  // Returns the rank of block `node` in the order of last use: the most recently used block has
  // rank 1. REQUIRES: block `node` has been used.
  int64_t Depth(BlockNode node) const { return marks_.CountFrom(position_[node]); }
  void Use(BlockNode node) {
    if (position_[node] != kNever) marks_.Unset(position_[node]);
    position_[node] = static_cast<uint32_t>(num_uses_);
    marks_.Set(num_uses_++);
  }
  size_t num_uses() const { return num_uses_; }
  int64_t num_blocks() const { return marks_.num_marks(); }
  // Returns the number of distinct blocks that were used since block use number `since`, inclusive.
  // Each block in each prompt is one block use. The block uses are numbered from 0.
  int64_t NumUsedSince(size_t since) const { return marks_.CountFrom(since); }

 private:
  static constexpr uint32_t kNever = ~uint32_t{0};
  MarkCounts marks_;
  // position_[n]: number of the last block use of block n. The block uses of all prompts are
  // numbered from 0.
  std::vector<uint32_t> position_;
  size_t num_uses_ = 0;
};

// Counts the distinct blocks that were used within each time window, such as the last 5 minutes
// before the current request.
class WindowCounter {
 public:
  WindowCounter(const BlockView& view, const WorkingSetOptions& options)
      : view_(view),
        num_samples_max_(static_cast<size_t>(options.num_samples)),
        first_in_(options.windows.size()) {
    INCIPIT_CHECK(std::ranges::is_sorted(options.windows) && options.num_samples > 0);
    set_.is_timed = options.is_timed;
    set_.windows = options.windows;
    set_.peaks.resize(options.windows.size());
    const size_t num_requests = view.log().num_requests();
    use_begin_.reserve(num_requests + 1);
    const double end = num_requests == 0 ? 0 : TimeOf(num_requests - 1);
    step_ = end / options.num_samples;
    // If time windows are measured in requests, the distance `step_` between two samples is a
    // number of requests, so `step_` must be a whole number.
    if (!set_.is_timed) step_ = std::ceil(std::max(step_, 1.0));
  }

  // Records all samples of the working set (number of distinct blocks in each time window) that are
  // due before request `index`. REQUIRES: `stack` does not contain the blocks of request `index`
  // yet.
  void BeforeRequest(size_t index, const LruStack& stack) {
    while (HasSampleBefore(TimeOf(index))) Sample(NextSample(), index, stack);
    use_begin_.push_back(stack.num_uses());
  }
  void AfterRequest(size_t index, const LruStack& stack) {
    const double now = TimeOf(index);
    for (size_t w = 0; w < set_.windows.size(); ++w) {
      const int64_t blocks = Count(w, now, stack);
      if (blocks > set_.peaks[w].blocks) set_.peaks[w] = {blocks, now};
    }
  }
  WorkingSet Finish(const LruStack& stack) {
    const size_t num_requests = view_.log().num_requests();
    if (num_requests > 0) Sample(TimeOf(num_requests - 1), num_requests, stack);
    return std::move(set_);
  }

 private:
  double TimeOf(size_t index) const {
    return set_.is_timed ? view_.log().request(index).time : static_cast<double>(index + 1);
  }
  // Returns true if a sample of the working set is due before the time `now`. Ignores the sample at
  // the end of the log, which Finish() records.
  bool HasSampleBefore(double now) const {
    return step_ > 0 && set_.samples.size() + 1 < num_samples_max_ && NextSample() < now;
  }
  double NextSample() const { return step_ * static_cast<double>(set_.samples.size() + 1); }

  int64_t Count(size_t window, double now, const LruStack& stack) {
    size_t& first = first_in_[window];
    while (first < use_begin_.size() && TimeOf(first) <= now - set_.windows[window]) ++first;
    return first == use_begin_.size() ? 0 : stack.NumUsedSince(use_begin_[first]);
  }
  void Sample(double now, size_t num_requests, const LruStack& stack) {
    WorkingSet::Sample sample = {now, static_cast<int64_t>(num_requests), stack.num_blocks(), {}};
    for (size_t w = 0; w < set_.windows.size(); ++w) sample.blocks.push_back(Count(w, now, stack));
    set_.samples.push_back(std::move(sample));
  }

  const BlockView& view_;
  const size_t num_samples_max_;
  WorkingSet set_;
  double step_ = 0;
  // use_begin_[r]: total number of blocks in the prompts of all requests before request r.
  std::vector<size_t> use_begin_;
  // first_in_[w]: index of the first request inside the time window w, when Count() last counted
  // this window.
  std::vector<size_t> first_in_;
};

size_t NumUses(const BlockView& view) {
  int64_t num_uses = 0;
  for (size_t i = 0; i < view.log().num_requests(); ++i) num_uses += view.num_blocks(i);
  return static_cast<size_t>(num_uses);
}

double Ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Rounds `value` to the closest number of the sequence 1, 2, 5, 10, 20, 50, 100 and so on.
double RoundCount(double value) {
  const double power = std::pow(10, std::floor(std::log10(std::max(value, 1.0))));
  const double scaled = std::max(value, 1.0) / power;
  return power * (scaled < std::sqrt(2)    ? 1
                  : scaled < std::sqrt(10) ? 2
                  : scaled < std::sqrt(50) ? 5
                                           : 10);
}

double RoundSeconds(double value) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  static constexpr double kLengths[] = {
      1,       2,           5,           10,           15,           30,
      kMinute, 2 * kMinute, 5 * kMinute, 10 * kMinute, 15 * kMinute, 30 * kMinute,
      kHour,   2 * kHour,   6 * kHour,   12 * kHour,   kDay};
  if (value < kLengths[0]) return RoundCount(value * 1e6) / 1e6;
  if (value > kDay) return kDay * RoundCount(value / kDay);
  return *std::ranges::min_element(
      kLengths, {}, [&](double length) { return std::abs(std::log(length / value)); });
}

}  // namespace

ReuseCurve::ReuseCurve(std::vector<Hits> at, Hits all, int64_t num_distinct)
    : up_to_(std::move(at)), all_(all), num_distinct_(num_distinct) {
  INCIPIT_CHECK(!up_to_.empty() && up_to_[0].blocks == 0);
  for (size_t i = 1; i < up_to_.size(); ++i) {
    up_to_[i].blocks += up_to_[i - 1].blocks;
    up_to_[i].tokens += up_to_[i - 1].tokens;
  }
}

const ReuseCurve::Hits& ReuseCurve::HitsWith(int64_t num_blocks) const {
  INCIPIT_CHECK(num_blocks >= 0);
  return up_to_[std::min(static_cast<size_t>(num_blocks), up_to_.size() - 1)];
}

int64_t ReuseCurve::BlocksFor(int32_t percent) const {
  INCIPIT_CHECK(percent > 0 && percent <= 100);
  const int64_t wanted = (attainable().blocks * percent + 99) / 100;
  return std::ranges::lower_bound(up_to_, wanted, {}, &Hits::blocks) - up_to_.begin();
}

double ReuseCurve::BlockHitRatio(const Hits& hits) const { return Ratio(hits.blocks, all_.blocks); }
double ReuseCurve::TokenHitRatio(const Hits& hits) const { return Ratio(hits.tokens, all_.tokens); }

Reuse MeasureReuse(const BlockView& view, const WorkingSetOptions& options) {
  const BlockLog& log = view.log();
  LruStack stack(log.num_nodes(), NumUses(view));
  WindowCounter windows(view, options);
  std::vector<ReuseCurve::Hits> at(1);
  ReuseCurve::Hits all;
  for (size_t request = 0; request < log.num_requests(); ++request) {
    windows.BeforeRequest(request, stack);
    const int64_t num_blocks = view.num_blocks(request);
    // Count the hits of the prompt before Use() makes its blocks the most recently used blocks.
    for (int64_t i = 0; i < view.num_seen(request); ++i) {
      const auto depth = static_cast<size_t>(stack.Depth(view.block(request, i)));
      if (depth >= at.size()) at.resize(std::max(depth + 1, 2 * at.size()));
      ++at[depth].blocks;
      at[depth].tokens += view.num_tokens(request, i);
    }
    for (int64_t i = num_blocks; i-- > 0;) stack.Use(view.block(request, i));
    all.blocks += num_blocks;
    all.tokens += log.request(request).input_tokens;
    windows.AfterRequest(request, stack);
  }
  WorkingSet working_set = windows.Finish(stack);
  return {ReuseCurve(std::move(at), all, stack.num_blocks()), std::move(working_set)};
}

WorkingSetOptions DefaultWindows(const BlockLog& log) {
  WorkingSetOptions options;
  const size_t num_requests = log.num_requests();
  const double span = num_requests == 0 ? 0 : log.request(num_requests - 1).time;
  options.is_timed = span > 0;
  const double length = options.is_timed ? span : static_cast<double>(num_requests);
  for (const double divisor : {60, 15, 4}) {
    const double window =
        options.is_timed ? RoundSeconds(length / divisor) : RoundCount(length / divisor);
    if (options.windows.empty() || window > options.windows.back()) {
      options.windows.push_back(window);
    }
  }
  return options;
}

}  // namespace incipit
