#include "scheduler/step_time_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace incipit {
namespace {

using std::chrono::milliseconds;

// A simulated machine. The time of a step is a linear function of the quantities in StepShape,
// times a random factor.
struct Machine {
  double step = 0, prompt_token = 0, decoding = 0, position = 0;  // seconds
  double noise = 0;        // standard deviation of the logarithm of a duration
  uint64_t num_steps = 0;  // number of steps so far; the noise of a step depends on this number

  double Exact(const StepShape& shape) const {
    return step + prompt_token * static_cast<double>(shape.num_prompt_tokens) +
           decoding * static_cast<double>(shape.num_decoding) +
           position * static_cast<double>(shape.num_positions);
  }
  Duration Run(const StepShape& shape) {
    // Computes an approximately normal random number. The sum of 12 uniform numbers in [0, 1),
    // minus 6, has mean 0 and standard deviation 1.
    double normal = -6;
    for (uint32_t i = 0; i < 12; ++i) {
      normal += static_cast<double>(RandomBits(1, i, num_steps) >> 11) * 0x1p-53;
    }
    ++num_steps;
    return FromSeconds(Exact(shape) * std::exp(noise * normal));
  }
};

Machine TwoCores(double noise) {
  return {
      .step = 0.030, .prompt_token = 2.6e-3, .decoding = 3e-3, .position = 0.7e-6, .noise = noise};
}
Machine Gpu(double noise) {
  return {
      .step = 6.8e-3, .prompt_token = 35e-6, .decoding = 5e-6, .position = 0.05e-6, .noise = noise};
}

StepShape DecodeShape(int64_t num_decoding, int64_t position) {
  StepShape shape;
  for (int64_t i = 0; i < num_decoding; ++i) shape.AddDecode(position);
  return shape;
}
StepShape MixedShape(int64_t num_prompt_tokens, int64_t num_decoding, int64_t position = 500) {
  StepShape shape = DecodeShape(num_decoding, position);
  shape.AddPromptChunk(position, num_prompt_tokens);
  return shape;
}
// Returns shape number `number` of a fixed random sequence. The shapes are those of decode steps,
// prefill steps and mixed steps.
StepShape AnyShape(uint64_t number) {
  const auto random = [number](uint32_t stream, int64_t bound) {
    return static_cast<int64_t>(RandomBits(2, stream, number) % static_cast<uint64_t>(bound));
  };
  const int64_t prompt = 1 + random(1, 500), decoding = 1 + random(2, 32);
  switch (number % 3) {
    case 0:
      return DecodeShape(decoding, random(3, 4000));
    case 1:
      return MixedShape(prompt, decoding, random(3, 4000));
    default:
      return MixedShape(prompt, 0, random(3, 4000));
  }
}

void Learn(Machine& machine, uint64_t num_steps, StepTimeModel& model, uint64_t first = 0) {
  for (uint64_t i = first; i < first + num_steps; ++i) {
    model.Observe(AnyShape(i), machine.Run(AnyShape(i)));
  }
}

// Returns the median over 90 shapes of |predicted - exact| / exact. `slowdown` multiplies the exact
// duration.
double ErrorAgainst(const Machine& machine, const StepTimeModel& model, double slowdown = 1) {
  std::vector<double> errors;
  for (uint64_t i = 1'000'000; i < 1'000'090; ++i) {
    const double exact = slowdown * machine.Exact(AnyShape(i));
    errors.push_back(std::abs(ToSeconds(model.Predict(AnyShape(i))) - exact) / exact);
  }
  std::ranges::nth_element(errors, errors.begin() + 45);
  return errors[45];
}

constexpr StepClass kClasses[] = {StepClass::kDecode, StepClass::kMixed, StepClass::kPrefill};

TEST(StepShapeTest, CountsThePositionsThatTokensAttendTo) {
  StepShape shape;
  shape.AddPromptChunk(3, 4);  // the tokens at 3 to 6 attend to 4 + 5 + 6 + 7 positions
  shape.AddDecode(9);
  EXPECT_EQ(shape.num_prompt_tokens, 4);
  EXPECT_EQ(shape.num_decoding, 1);
  EXPECT_EQ(shape.num_positions, 4 + 5 + 6 + 7 + 10);
  EXPECT_EQ(ClassOf(shape), StepClass::kMixed);
  EXPECT_EQ(ClassOf(DecodeShape(2, 5)), StepClass::kDecode);
  EXPECT_EQ(ClassOf(MixedShape(2, 0)), StepClass::kPrefill);
}

TEST(StepTimeModelTest, LearnsTheCostsOfAMachine) {
  for (Machine machine : {TwoCores(0), Gpu(0)}) {
    StepTimeModel model;
    Learn(machine, 600, model);
    EXPECT_LT(ErrorAgainst(machine, model), 0.02);
  }
}

TEST(StepTimeModelTest, TheErrorIsAboutAsLargeAsTheNoise) {
  for (Machine machine : {TwoCores(0.1), Gpu(0.1)}) {
    StepTimeModel model;
    Learn(machine, 600, model);
    EXPECT_LT(ErrorAgainst(machine, model), 0.05);
    for (const StepClass step_class : kClasses) {
      // The noise has a standard deviation of 0.1, so the median of its absolute value is 0.067.
      EXPECT_GT(model.ErrorOf(step_class), 0.05);
      EXPECT_LT(model.ErrorOf(step_class), 0.09);
    }
  }
}

TEST(StepTimeModelTest, StaysAccurateOverAMillionSteps) {
  StepTimeModel model;
  for (int32_t i = 0; i < 1'000'000; ++i) {
    model.Observe(DecodeShape(4, 100), milliseconds(i % 3 == 0 ? 14 : 10));
  }
  EXPECT_NEAR(ToSeconds(model.Predict(DecodeShape(4, 100))), 0.010, 0.001);
}

TEST(StepTimeModelTest, BeforeTheFirstStepNothingIsKnown) {
  const StepTimeModel model;
  EXPECT_FALSE(model.trained());
  EXPECT_EQ(model.Predict(DecodeShape(3, 10)), Duration::zero());
  EXPECT_EQ(model.TimeFor(1000, 1000, 10), Duration::zero());
  EXPECT_EQ(model.PrefillTokensPerSecond(100), 0);
  EXPECT_EQ(model.ErrorOf(StepClass::kMixed), 0);
  EXPECT_EQ(model.PromptTokensWithin(milliseconds(1), {}, 0, 2048),
            StepTimeModel::kFirstPromptTokens);
}

TEST(StepTimeModelTest, PredictsAStepThatItHasSeenOnce) {
  for (Machine machine : {TwoCores(0), Gpu(0)}) {
    for (const StepShape& shape : {DecodeShape(4, 100), MixedShape(100, 0), MixedShape(9, 3)}) {
      StepTimeModel model;
      model.Observe(shape, machine.Run(shape));
      EXPECT_NEAR(ToSeconds(model.Predict(shape)), machine.Exact(shape),
                  0.01 * machine.Exact(shape));
    }
  }
}

TEST(StepTimeModelTest, PredictsTheFirstDecodeStepsAfterOnePrompt) {
  for (Machine machine : {TwoCores(0.05), Gpu(0.05)}) {
    StepTimeModel model;
    model.Observe(MixedShape(512, 0, 0), machine.Run(MixedShape(512, 0, 0)));
    for (int64_t i = 0; i < 3; ++i) {
      model.Observe(DecodeShape(1, 512 + i), machine.Run(DecodeShape(1, 512 + i)));
    }
    const StepShape next = DecodeShape(1, 516);
    EXPECT_NEAR(ToSeconds(model.Predict(next)), machine.Exact(next), 0.1 * machine.Exact(next));
  }
}

TEST(StepTimeModelTest, SeedsPredictPromptsButDoNotTrain) {
  for (Machine machine : {TwoCores(0.05), Gpu(0.05)}) {
    StepTimeModel model;
    const auto seed = [&](int64_t num_tokens) {
      const StepShape shape = MixedShape(num_tokens, 0, 2048 - num_tokens);
      model.Seed({.shape = shape, .duration = machine.Run(shape)});
    };
    for (int32_t i = 0; i < 10; ++i) seed(8);
    EXPECT_FALSE(model.knows_prompts()) << "steps of one size";
    seed(32);
    EXPECT_TRUE(model.knows_prompts());
    for (int32_t i = 0; i < 2; ++i) seed(128);
    EXPECT_FALSE(model.trained());
    const StepShape small = MixedShape(64, 0, 0), large = MixedShape(512, 0, 0);
    EXPECT_NEAR(ToSeconds(model.Predict(small)), machine.Exact(small), 0.4 * machine.Exact(small));
    EXPECT_GT(ToSeconds(model.Predict(large)), machine.Exact(large) / 2);
    EXPECT_LT(ToSeconds(model.Predict(large)), machine.Exact(large) * 2);
    for (int32_t i = 0; i < StepTimeModel::kTrainedSteps; ++i) {
      EXPECT_FALSE(model.trained());
      model.Observe(MixedShape(100, 0), machine.Run(MixedShape(100, 0)));
    }
    EXPECT_TRUE(model.trained());
  }
}

TEST(StepTimeModelTest, SeedsWithoutPromptTokensOrTimeHaveNoEffect) {
  StepTimeModel model;
  model.Seed({.shape = DecodeShape(1, 5), .duration = milliseconds(10)});
  model.Seed({.shape = MixedShape(8, 0), .duration = milliseconds(0)});
  model.Seed({.shape = MixedShape(32, 0), .duration = milliseconds(20)});
  EXPECT_FALSE(model.knows_prompts());
  EXPECT_FALSE(model.trained());
}

TEST(StepTimeModelTest, OverestimatesPromptTokensWhileItHasOnlySeenDecodeSteps) {
  for (Machine machine : {TwoCores(0.05), Gpu(0.05)}) {
    for (const int64_t num_decoding : {1, 8, 64}) {
      StepTimeModel model;
      for (int64_t i = 0; i < 200; ++i) {
        const StepShape shape = DecodeShape(num_decoding, 100 + i);
        model.Observe(shape, machine.Run(shape));
      }
      EXPECT_FALSE(model.trained());
      const StepShape base = DecodeShape(num_decoding, 300);
      // `factor` is the time limit of a step, divided by the time of a step that only decodes.
      for (const double factor : {1.5, 2.0, 100.0}) {
        const Duration limit = FromSeconds(factor * machine.Exact(base));
        const int32_t count = model.PromptTokensWithin(limit, base, 0, 2048);
        EXPECT_GE(count, 1);
        EXPECT_LE(count, StepTimeModel::kFirstPromptTokens);
        StepShape step = base;
        step.AddPromptChunk(0, count);
        EXPECT_LT(machine.Exact(step), 1.1 * ToSeconds(limit));
      }
    }
  }
}

TEST(StepTimeModelTest, LearnsPromptTokensFromTheFirstMixedSteps) {
  for (Machine machine : {TwoCores(0.05), Gpu(0.05)}) {
    StepTimeModel model;
    for (int64_t i = 0; i < 200; ++i) {
      model.Observe(DecodeShape(8, 100 + i), machine.Run(DecodeShape(8, 100 + i)));
    }
    // Each step computes as many prompt tokens as fit into twice the time of a step that only
    // decodes.
    const StepShape base = DecodeShape(8, 400);
    const Duration limit = FromSeconds(2 * machine.Exact(base));
    StepShape step;
    for (int32_t i = 0; i < 30; ++i) {
      step = base;
      step.AddPromptChunk(0, model.PromptTokensWithin(limit, base, 0, 2048));
      model.Observe(step, machine.Run(step));
    }
    EXPECT_NEAR(machine.Exact(step), ToSeconds(limit), 0.2 * ToSeconds(limit));
  }
}

TEST(StepTimeModelTest, PromptTokensWithinIsTheLargestNumberThatFits) {
  Machine machine = TwoCores(0.05);
  StepTimeModel model;
  Learn(machine, 300, model);
  const StepShape base = MixedShape(20, 6);
  for (int64_t limit = 1; limit < 1500; limit += 7) {
    const int32_t count = model.PromptTokensWithin(milliseconds(limit), base, 900, 400);
    StepShape step = base;
    step.AddPromptChunk(900, count);
    if (count > 0) {
      EXPECT_LE(model.Predict(step), milliseconds(limit));
    }
    if (count == 400) continue;
    step = base;
    step.AddPromptChunk(900, count + 1);
    EXPECT_GT(model.Predict(step), milliseconds(limit));
  }
}

TEST(StepTimeModelTest, PromptTokensGrowByAtMostTheFactorOfTheLimit) {
  Machine machine = Gpu(0);
  StepTimeModel model;
  model.Observe(MixedShape(100, 0), machine.Run(MixedShape(100, 0)));
  EXPECT_EQ(model.PromptTokensWithin(std::chrono::hours(1), {}, 0, 100'000), 400);
  EXPECT_EQ(model.PromptTokensWithin(std::chrono::hours(1), MixedShape(150, 3), 0, 100'000), 250);
  EXPECT_EQ(model.PromptTokensWithin(std::chrono::hours(1), MixedShape(500, 3), 0, 100'000), 0);
}

TEST(StepTimeModelTest, MoreWorkNeverTakesLess) {
  Machine machine = Gpu(0.4);
  StepTimeModel model;
  for (uint64_t i = 0; i < 500; ++i) {
    Learn(machine, 1, model, i);
    const StepShape shape = MixedShape(50, 5);
    StepShape more = shape;
    more.num_prompt_tokens += 10;
    EXPECT_GE(model.Predict(more), model.Predict(shape));
    more.num_decoding += 10;
    EXPECT_GE(model.Predict(more), model.Predict(shape));
    more.num_positions += 100'000;
    EXPECT_GE(model.Predict(more), model.Predict(shape));
  }
}

TEST(StepTimeModelTest, OneSlowStepChangesLittle) {
  for (const uint64_t num_before : {0, 1, 3, 50, 600}) {
    Machine machine = TwoCores(0.02);
    StepTimeModel model;
    Learn(machine, num_before, model);
    model.Observe(AnyShape(num_before), 20 * machine.Run(AnyShape(num_before)));
    Learn(machine, 30, model, num_before + 1);
    EXPECT_LT(ErrorAgainst(machine, model), 0.1) << num_before;
    if (num_before < 50) continue;
    // The next prediction is already good.
    model.Observe(AnyShape(num_before), 20 * machine.Run(AnyShape(num_before)));
    EXPECT_LT(ErrorAgainst(machine, model), 0.05) << num_before;
  }
}

TEST(StepTimeModelTest, OneSlowStepInTwentyChangesLittle) {
  Machine machine = TwoCores(0.05);
  StepTimeModel model;
  for (uint64_t i = 0; i < 1000; ++i) {
    const StepShape shape = AnyShape(i);
    model.Observe(shape, (i % 20 == 7 ? 10 : 1) * machine.Run(shape));
  }
  EXPECT_LT(ErrorAgainst(machine, model), 0.1);
}

// All slow steps have the same number of decoding sequences.
TEST(StepTimeModelTest, SlowStepsOfOneShapeChangeLittle) {
  Machine machine = TwoCores(0.05);
  StepTimeModel model;
  for (int64_t i = 0; i < 3000; ++i) {
    const StepShape shape = DecodeShape(1 + i % 32, 100 + i % 71);
    model.Observe(shape, (i % 96 == 31 ? 20 : 1) * machine.Run(shape));
  }
  for (const int64_t num_decoding : {1, 16, 32}) {
    const StepShape shape = DecodeShape(num_decoding, 120);
    EXPECT_NEAR(ToSeconds(model.Predict(shape)), machine.Exact(shape), 0.15 * machine.Exact(shape));
  }
}

TEST(StepTimeModelTest, AClassThatNeverRanFollowsTheSpeedOfTheOthers) {
  Machine machine = TwoCores(0);
  StepTimeModel model;
  const StepShape decode = DecodeShape(4, 100), prefill = MixedShape(32, 0);
  for (int32_t i = 0; i < 100; ++i) model.Observe(decode, machine.Run(decode));
  const Duration before = model.Predict(prefill);
  for (int32_t i = 0; i < 20; ++i) model.Observe(decode, 9 * machine.Run(decode) / 5);
  EXPECT_NEAR(ToSeconds(model.Predict(prefill)) / ToSeconds(before), 1.8, 0.05);
}

TEST(StepTimeModelTest, FollowsAMachineThatBecomesSlowerAndFasterAgain) {
  for (Machine machine : {TwoCores(0.05), Gpu(0.05)}) {
    StepTimeModel model;
    Learn(machine, 300, model);
    for (uint64_t i = 300; i < 330; ++i) {
      model.Observe(AnyShape(i), 2 * machine.Run(AnyShape(i)));
    }
    EXPECT_LT(ErrorAgainst(machine, model, 2), 0.1);
    Learn(machine, 30, model, 330);
    EXPECT_LT(ErrorAgainst(machine, model), 0.1);
  }
}

// Every third decode step takes twice as long as usual. The costs of mixed and prefill steps must
// not change.
TEST(StepTimeModelTest, ManyStepsOfOneClassDoNotChangeTheOthers) {
  Machine machine = TwoCores(0.05);
  StepTimeModel model;
  Learn(machine, 600, model);
  const StepShape prefill = MixedShape(256, 0), mixed = MixedShape(64, 8);
  for (int64_t i = 0; i < 100'000; ++i) {
    const StepShape shape = DecodeShape(1 + i % 8, 500 + i % 1000);
    model.Observe(shape, (i % 3 == 0 ? 2 : 1) * machine.Run(shape));
  }
  EXPECT_NEAR(ToSeconds(model.Predict(prefill)), machine.Exact(prefill),
              0.1 * machine.Exact(prefill));
  EXPECT_NEAR(ToSeconds(model.Predict(mixed)), machine.Exact(mixed), 0.1 * machine.Exact(mixed));
}

TEST(StepTimeModelTest, FollowsAChangeOfOneClassOnly) {
  Machine machine = TwoCores(0.05);
  StepTimeModel model;
  Learn(machine, 600, model);
  const auto slow_decode = [&](uint64_t i) {
    const bool is_decode = ClassOf(AnyShape(i)) == StepClass::kDecode;
    return (is_decode ? 2 : 1) * machine.Run(AnyShape(i));
  };
  for (uint64_t i = 600; i < 1500; ++i) model.Observe(AnyShape(i), slow_decode(i));
  for (const StepClass step_class : kClasses) EXPECT_LT(model.ErrorOf(step_class), 0.15);
}

TEST(StepTimeModelTest, ErrorOfIsAMedianOverTheLastSteps) {
  StepTimeModel model;
  const StepShape shape = DecodeShape(1, 10);
  model.Observe(shape, milliseconds(10));  // first step, for which no prediction exists
  EXPECT_EQ(model.ErrorOf(StepClass::kDecode), 0);
  model.Observe(shape, milliseconds(20));  // the model predicted 10 ms for this step
  EXPECT_NEAR(model.ErrorOf(StepClass::kDecode), 0.5, 0.01);
  for (int32_t i = 0; i < 300; ++i) model.Observe(shape, milliseconds(20));
  EXPECT_LT(model.ErrorOf(StepClass::kDecode), 0.01);
  for (int32_t i = 0; i < 100; ++i) {
    model.Observe(shape, 2 * model.Predict(shape));
  }
  EXPECT_NEAR(model.ErrorOf(StepClass::kDecode), 0.5, 0.01);
  EXPECT_EQ(model.ErrorOf(StepClass::kPrefill), 0);
}

TEST(StepTimeModelTest, TimeForIsTheSumOfTheSteps) {
  Machine machine = TwoCores(0.05);
  StepTimeModel model;
  Learn(machine, 300, model);
  for (const StepShape& decode_part : {StepShape{}, DecodeShape(5, 300)}) {
    Duration sum{};
    for (const int64_t first : {0, 100, 200}) {
      StepShape step = decode_part;
      step.AddPromptChunk(first, first == 200 ? 50 : 100);
      sum += model.Predict(step);
    }
    const Duration time = model.TimeFor(250, PositionsOf(0, 250), 100, decode_part);
    EXPECT_NEAR(ToSeconds(time), ToSeconds(sum), 1e-6);
  }
}

TEST(StepTimeModelTest, EstimatesTheSpeedOfPrefill) {
  Machine machine = TwoCores(0.02);
  StepTimeModel model;
  Learn(machine, 600, model);
  const double expected = 256 / machine.Exact(MixedShape(256, 0, 0));
  EXPECT_NEAR(model.PrefillTokensPerSecond(256), expected, 0.05 * expected);
  EXPECT_LT(model.PrefillTokensPerSecond(256, DecodeShape(8, 500)), 0.98 * expected);
}

TEST(StepTimeModelTest, IgnoresStepsWithoutTokensAndWithoutDuration) {
  StepTimeModel model;
  model.Observe({}, milliseconds(5));
  model.Observe(DecodeShape(1, 5), Duration::zero());
  model.Observe(DecodeShape(1, 5), milliseconds(-5));
  EXPECT_EQ(model.Predict(DecodeShape(1, 5)), Duration::zero());
  model.Observe(DecodeShape(1, 5), milliseconds(5));
  EXPECT_GT(model.Predict(DecodeShape(1, 5)), Duration::zero());
  EXPECT_EQ(model.Predict({}), Duration::zero());
}

TEST(StepTimeModelTest, SurvivesAnyNumbers) {
  StepTimeModel model;
  for (uint64_t i = 0; i < 20'000; ++i) {
    const auto random = [i](uint32_t stream, int32_t bits_max) {
      const uint64_t bits = RandomBits(3, stream, i);
      return static_cast<int64_t>(bits >> (64 - bits % static_cast<uint64_t>(bits_max) - 1));
    };
    const StepShape shape = {.num_prompt_tokens = i % 2 == 0 ? 0 : random(1, 20),
                             .num_decoding = random(2, 12),
                             .num_positions = random(3, 40)};
    model.Observe(shape, Duration(random(4, 50)));
    ASSERT_GE(model.Predict(shape), Duration::zero());
    ASSERT_LE(model.Predict(shape), std::chrono::hours(300'000));
  }
  Machine machine = TwoCores(0.05);
  Learn(machine, 3000, model);
  EXPECT_LT(ErrorAgainst(machine, model), 0.15);
}

}  // namespace
}  // namespace incipit
