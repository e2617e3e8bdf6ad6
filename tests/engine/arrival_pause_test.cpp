// Tests the pause between two steps in which the engine waits for new requests.
#include "engine/arrival_pause.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "tests/engine/engine_fixture.h"

namespace incipit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStep = milliseconds(40);  // duration of a step that only decodes
constexpr Time kEnd = Time(seconds(1));       // the end of the first step in which a request ends

// Begins `count` pauses after steps in which one request ended. Before the next pause, one new
// request arrives `delay` after the end of the step. Returns the number of pauses in which the
// engine waits.
int32_t NumPauses(ArrivalPause& pause, int32_t count, Duration delay) {
  int32_t num_pauses = 0;
  Time now = kEnd;
  for (int32_t i = 0; i < count; ++i, now += seconds(1)) {
    pause.Begin(1, kStep, now);
    num_pauses += pause.IsWaiting(now);
    pause.AddArrival(now + delay);
  }
  return num_pauses;
}

TEST(ArrivalPauseTest, ThePauseEndsWithTheArrivalsOrAfterAQuarterOfAStep) {
  ArrivalPause pause(seconds(1));
  EXPECT_FALSE(pause.IsWaiting(kEnd)) << "no request has ended";
  pause.Begin(2, kStep, kEnd);
  EXPECT_EQ(pause.end(), kEnd + milliseconds(10));
  EXPECT_TRUE(pause.IsWaiting(kEnd + milliseconds(9)));
  EXPECT_FALSE(pause.IsWaiting(kEnd + milliseconds(10)));
  pause.AddArrival(kEnd + milliseconds(1));
  EXPECT_TRUE(pause.IsWaiting(kEnd + milliseconds(2)));
  pause.AddArrival(kEnd + milliseconds(2));
  EXPECT_FALSE(pause.IsWaiting(kEnd + milliseconds(2))) << "as many arrived as ended";
}

TEST(ArrivalPauseTest, TheMaximumLimitsThePause) {
  ArrivalPause pause(milliseconds(3));
  pause.Begin(1, kStep, kEnd);
  EXPECT_EQ(pause.end(), kEnd + milliseconds(3));
  ArrivalPause off(Duration{});
  off.Begin(1, kStep, kEnd);
  EXPECT_FALSE(off.IsWaiting(kEnd));
}

TEST(ArrivalPauseTest, ThereIsNoPauseBeforeTheFirstMeasuredStep) {
  ArrivalPause pause(seconds(1));
  pause.Begin(1, Duration{}, kEnd);
  EXPECT_FALSE(pause.IsWaiting(kEnd));
}

TEST(ArrivalPauseTest, ClientsThatReactLateAreRarelyAwaited) {
  ArrivalPause pause(seconds(1));
  EXPECT_EQ(NumPauses(pause, 100, milliseconds(10)), 100) << "clients that react in time";
  const int32_t num_pauses = NumPauses(pause, 1600, milliseconds(11));
  EXPECT_GE(num_pauses, 90) << "every 16th pause is a try";
  EXPECT_LE(num_pauses, 110);
  EXPECT_GE(NumPauses(pause, 100, milliseconds(1)), 60) << "the clients react in time again";
}

TEST(ArrivalPauseTest, APauseWithoutDurationDoesNotCount) {
  ArrivalPause pause(seconds(1));
  for (int32_t i = 0; i < 10; ++i) pause.Begin(1, Duration{}, kEnd);
  pause.Begin(1, kStep, kEnd);
  EXPECT_TRUE(pause.IsWaiting(kEnd));
}

// Passes a step that is blocked at the gate. The step takes 40 s of the manual clock.
void PassBlockedStep(EngineFixture& fixture) {
  fixture.clock.Advance(1000 * kStep);
  fixture.gate.Pass(1);
}
void PassSteps(EngineFixture& fixture, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    fixture.gate.WaitForStep();
    PassBlockedStep(fixture);
  }
}

// The requests 1 and 2 run, and request 1 has ended with the latest step. A pause takes at most 10
// s of real time.
struct PauseFixture : EngineFixture {
  explicit PauseFixture(Duration longest) : PauseFixture(OptionsWith(longest), [](auto&) {}) {}
  // Calls `act` while request 1 runs.
  PauseFixture(const EngineOptions& options, const std::function<void(EngineFixture&)>& act)
      : EngineFixture(options) {
    gate.Close();
    EXPECT_TRUE(Submit(Ask(2, 4, 40)).ok());
    PassSteps(*this, 2);
    gate.WaitForStep();
    EXPECT_TRUE(Submit(Ask(1, 4, 3)).ok());
    PassBlockedStep(*this);
    gate.WaitForStep();
    act(*this);
    PassBlockedStep(*this);
    PassSteps(*this, 2);
    listener.WaitForEnd(1);
  }
  static EngineOptions OptionsWith(Duration longest) {
    EngineOptions options = DefaultOptions();
    options.arrival_pause_max = longest;
    return options;
  }
};

TEST(ArrivalPauseTest, ARequestThatArrivesInThePauseIsInTheNextStep) {
  PauseFixture fixture(seconds(10));
  std::this_thread::sleep_for(milliseconds(50));  // a step without a pause would begin now
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(3, 4, 5)).ok());
  PassSteps(fixture, 1);
  fixture.gate.WaitForStep();
  EXPECT_EQ(fixture.listener.OutputOf(3).tokens.size(), 1U);
}

TEST(ArrivalPauseTest, WithoutAPauseTheNextStepBeginsAtOnce) {
  PauseFixture fixture(Duration{});
  fixture.gate.WaitForStep();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(3, 4, 5)).ok());
  fixture.gate.Pass(1);
  fixture.gate.WaitForStep();
  EXPECT_TRUE(fixture.listener.OutputOf(3).tokens.empty());
}

// Request 3 waits for a slot before request 1 ends.
TEST(ArrivalPauseTest, ThereIsNoPauseIfAWaitingRequestTakesTheSlot) {
  EngineOptions options = PauseFixture::OptionsWith(seconds(10));
  options.scheduler.running_max = 2;
  PauseFixture fixture(options, [](EngineFixture& engine) {
    EXPECT_TRUE(engine.Submit(EngineFixture::Ask(3, 4, 5)).ok());
  });
  const Time begin = std::chrono::steady_clock::now();
  PassSteps(fixture, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
}

// The pause would take 10 s.
TEST(ArrivalPauseTest, AnEngineThatStopsEndsThePause) {
  PauseFixture fixture(seconds(10));
  fixture.gate.Open();
  const Time begin = std::chrono::steady_clock::now();
  fixture.engine.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
}

}  // namespace
}  // namespace incipit
