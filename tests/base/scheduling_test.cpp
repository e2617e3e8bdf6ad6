#include "base/scheduling.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace incipit {
namespace {

void SetPolicy(int policy) {
  const sched_param parameters{};
  ASSERT_EQ(sched_setscheduler(0, policy, &parameters), 0);
}

TEST(SchedulingTest, AThreadThatNeverInterruptsOthersStartsNoneThatDoes) {
  std::thread([] {
    SetPolicy(SCHED_OTHER);
    NeverInterruptOthers();
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
    std::thread([] { EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH); }).join();
  }).join();
  EXPECT_NE(sched_getscheduler(0), SCHED_BATCH) << "nobody else is touched";
}

TEST(SchedulingTest, APolicyThatWasGivenStays) {
  std::thread([] {
    SetPolicy(SCHED_IDLE);
    NeverInterruptOthers();
    EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
  }).join();
}

}  // namespace
}  // namespace incipit
