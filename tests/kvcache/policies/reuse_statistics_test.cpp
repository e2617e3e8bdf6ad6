#include "kvcache/policies/reuse_statistics.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>

#include "kvcache/policies/paced_clock.h"
#include "kvcache/policies/reuse_class.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kClass = 3;
// Time between two block uses, in a busy and in a quiet period.
constexpr milliseconds kBusy(2), kQuiet(16);

// Uses blocks one by one, in alternating busy and quiet periods. Every second block is used again
// 10 s after its first use. The other blocks are never used again, and the statistics forget them
// after 40 s.
class Blocks {
 public:
  explicit Blocks(bool reports_time) : reports_time_(reports_time) {}

  void Run(int num_blocks, Duration apart) {
    for (int i = 0; i < num_blocks; ++i) {
      now_ += apart;
      UseWhatIsDue();
      lasting_.push_back({now_, clock_.stamp()});
      if (++num_made_ % 2 == 0) used_.push_back({now_, clock_.stamp()});
      statistics_.Enter(kClass, clock_.stamp(), 1);
      Touch();
    }
  }

  void RunSpells() {
    for (int spell = 0; spell < 12; ++spell) Run(60'000, spell % 2 == 0 ? kBusy : kQuiet);
  }

  // Uses 60,000 blocks at intervals of `apart`. Returns a ratio: the retention value of a block 8 s
  // after its use, divided by the value 30 s after its use.
  double WorthBeforeByAfter(Duration apart) {
    Run(60'000, apart);
    statistics_.Refresh();
    const auto value = [&](int after) {
      const Time used = now_ - seconds(after);
      auto block = lasting_.begin();
      while (block->used < used) ++block;
      return statistics_.ValueOf(kClass, paced_.AgeClassOf(block->stamp));
    };
    return value(8) / value(30);
  }

 private:
  struct Block {
    Time used;
    TouchClock::Stamp stamp;
  };

  void UseWhatIsDue() {
    for (; !used_.empty() && now_ - used_.front().used >= seconds(10); used_.pop_front()) {
      const TouchClock::Stamp stamp = used_.front().stamp;
      statistics_.Leave(kClass, stamp, 1);
      statistics_.CountReuse(kClass, paced_.AgeClassOf(stamp), 1);
    }
    for (; !lasting_.empty() && now_ - lasting_.front().used >= seconds(40); lasting_.pop_front()) {
      // Every second block was already removed at its second use.
      if (++num_over_ % 2 == 0) continue;
      statistics_.Leave(kClass, lasting_.front().stamp, 1);
      statistics_.CountForgotten(1);
    }
  }

  void Touch() {
    if (reports_time_) paced_.PassUntil(now_);
    const uint64_t epoch = clock_.epoch();
    paced_.Advance(1);
    clock_.Advance(1);
    if (clock_.epoch() != epoch) statistics_.BeginEpoch(1);
  }

  bool reports_time_;
  TouchClock clock_{uint64_t{1} << 40, 4, 64};
  PacedClock paced_{clock_};
  ReuseStatistics statistics_{clock_, paced_, 4000};
  Time now_;
  std::deque<Block> used_, lasting_;
  int64_t num_made_ = 0, num_over_ = 0;
};

TEST(ReuseStatistics, LearnsAfterWhatTimeBlocksAreUsedAgain) {
  for (const Duration apart : {kBusy, kQuiet}) {
    Blocks blocks(true);
    blocks.RunSpells();
    EXPECT_GT(blocks.WorthBeforeByAfter(apart), 30) << apart / milliseconds(1);
  }
}

// If the statistics get no times, ages are numbers of block uses. Thirty seconds of a quiet period
// contain fewer block uses than ten seconds of a busy period.
TEST(ReuseStatistics, WithoutTheTimeALongPauseIsLikeAShortOne) {
  Blocks blocks(false);
  blocks.RunSpells();
  EXPECT_LT(blocks.WorthBeforeByAfter(kQuiet), 15);
}

// Blocks of one class are used again at a certain age, and blocks of the other class are never used
// again. Later, the statistics forget all blocks. For ages that no block has reached, the values
// must follow from the counts at earlier ages.
TEST(ReuseStatistics, AClassThatIsNotUsedIsNotBelievedToBeUsedLater) {
  constexpr int kNew = 0, kAge = 4000, kForgotten = 16'000, kUnseen = 500'000;
  TouchClock clock(uint64_t{1} << 40, 4, 64);
  PacedClock paced(clock);
  ReuseStatistics statistics(clock, paced, 4000);
  const auto leave = [&](int reuse_class, uint64_t age) {
    statistics.Leave(reuse_class, clock.stamp() - static_cast<TouchClock::Stamp>(age), 1);
  };
  for (int i = 0; i < 100'000; ++i) {
    statistics.Enter(kNew, clock.stamp(), 1);
    statistics.Enter(kFirstSharedClass, clock.stamp(), 1);
    if (i >= kAge) {
      leave(kNew, kAge);
      statistics.CountReuse(kNew, clock.AgeClassOf(clock.stamp() - kAge), 1);
    }
    if (i >= kForgotten) {
      leave(kFirstSharedClass, kForgotten);
      statistics.CountForgotten(1);
    }
    const uint64_t epoch = clock.epoch();
    paced.Advance(1);
    clock.Advance(1);
    if (clock.epoch() != epoch) statistics.BeginEpoch(1);
  }
  statistics.Refresh();
  const int unseen = clock.AgeClassOf(clock.stamp() - kUnseen);
  EXPECT_LT(statistics.ValueOf(kFirstSharedClass, unseen), statistics.ValueOf(kNew, unseen));
}

}  // namespace
}  // namespace incipit
