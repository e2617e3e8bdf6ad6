#include "base/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/status.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

using Args = std::vector<std::string_view>;

enum class Device { kCpu, kCuda };
constexpr EnumName<Device> kDeviceNames[] = {
    {Device::kCpu, "cpu"}, {Device::kCuda, "cuda"}, {Device::kCuda, "gpu"}};
enum class Level { kLow, kHigh };
constexpr EnumName<Level> kLevelNames[] = {{Level::kLow, "low"}, {Level::kHigh, "high"}};

struct Values {
  std::string model = "models/tiny";
  std::optional<std::string> template_file;
  std::vector<std::string> stops = {"default"};
  bool json = false;
  std::optional<Device> device;
  Level level = Level::kHigh;
  int32_t max_tokens = 16;
  std::optional<int64_t> seed;
  double rate = 1.5;
  std::optional<float> temperature;
  int64_t memory = int64_t{1} << 30;
  Duration timeout = std::chrono::seconds(30);
};

class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() {
    flags_.Group("What to run");
    flags_.String({"model", "DIR", "The model's folder."}, values_.model);
    flags_.String({"template", "FILE", "A template."}, values_.template_file);
    flags_.Strings({"stop", "TEXT", "Ends the answer. May be given several times."}, values_.stops);
    flags_.Group("How");
    flags_.Switch({"json", "", "Print one JSON object."}, values_.json);
    flags_.Enum({"device", "NAME", "Which device computes."}, values_.device, "auto", kDeviceNames);
    flags_.Enum({"level", "NAME", "How hard."}, values_.level, kLevelNames);
    flags_.Integer({"max-tokens", "N", "Length."}, values_.max_tokens, {1, 4096});
    flags_.Integer({"seed", "N", "Seed."}, values_.seed);
    flags_.Real({"rate", "R", "Requests per second."}, values_.rate, {0.001, 1e6});
    flags_.Real({"temperature", "T", "Temperature."}, values_.temperature);
    flags_.Bytes({"memory", "SIZE", "Memory."}, values_.memory, {1 << 20});
    flags_.Interval({"timeout", "TIME", "Patience."}, values_.timeout,
                    {std::chrono::milliseconds(10), std::chrono::hours(1)});
  }
  std::string ErrorOf(const Args& args) { return MessageOf(flags_.ParseAll(args)); }

  Values values_;
  Flags flags_;
};

TEST_F(FlagsTest, ValuesFollowAfterASpaceOrAnEqualsSign) {
  ASSERT_TRUE(
      flags_
          .ParseAll(Args{"--model", "a=b", "--max-tokens=7", "--seed", "-5", "--rate=2e3",
                         "--temperature", "0.5", "--template=", "--device", "cpu", "--level=low"})
          .ok());
  EXPECT_EQ(values_.model, "a=b");
  EXPECT_EQ(values_.max_tokens, 7);
  EXPECT_EQ(values_.seed, -5);
  EXPECT_EQ(values_.rate, 2000);
  EXPECT_EQ(values_.temperature, 0.5f);
  EXPECT_EQ(values_.template_file, "");
  EXPECT_EQ(values_.device, Device::kCpu);
  EXPECT_EQ(values_.level, Level::kLow);
  EXPECT_TRUE(flags_.IsSet("seed"));
  EXPECT_FALSE(flags_.IsSet("json"));
}

TEST_F(FlagsTest, ASwitchStandsAloneOrTakesOnAndOff) {
  ASSERT_TRUE(flags_.ParseAll(Args{"--json"}).ok());
  EXPECT_TRUE(values_.json);
  ASSERT_TRUE(flags_.ParseAll(Args{"--json=off"}).ok());
  EXPECT_FALSE(values_.json);
  ASSERT_TRUE(flags_.ParseAll(Args{"--json", "--model", "x"}).ok());
  EXPECT_TRUE(values_.json);
  ASSERT_TRUE(flags_.ParseAll(Args{"--json", "false", "--model", "x"}).ok());
  EXPECT_FALSE(values_.json);
  EXPECT_EQ(ErrorOf({"--json=maybe"}), "--json is \"maybe\"; it must be on or off");
  EXPECT_EQ(ErrorOf({"--json", "maybe"}), "--json is \"maybe\"; it must be on or off");
}

TEST_F(FlagsTest, ARepeatedFlagCountsLastAndAListGrows) {
  ASSERT_TRUE(flags_.ParseAll(Args{"--seed=1", "--stop", "a", "--seed=2", "--stop=b"}).ok());
  EXPECT_EQ(values_.seed, 2);
  EXPECT_THAT(values_.stops, ElementsAre("a", "b"));
}

TEST_F(FlagsTest, AnEnumIsShownByTheNameThatItWasGivenBy) {
  const auto shown = [&](const std::string& name) {
    const auto values = flags_.Values();
    return std::map<std::string, std::string>(values.begin(), values.end()).at(name);
  };
  EXPECT_EQ(shown("device"), "auto");
  EXPECT_EQ(shown("level"), "high");
  ASSERT_TRUE(flags_.ParseAll(Args{"--device=gpu"}).ok());
  EXPECT_EQ(values_.device, Device::kCuda);
  EXPECT_EQ(shown("device"), "gpu");
  ASSERT_TRUE(flags_.ParseAll(Args{"--device=cuda"}).ok());
  EXPECT_EQ(shown("device"), "cuda");
  ASSERT_TRUE(flags_.ParseAll(Args{"--device=gpu", "--device=auto"}).ok());
  EXPECT_FALSE(values_.device.has_value());
  EXPECT_EQ(shown("device"), "auto");
  values_.device = Device::kCpu;  // sets the value directly, without a flag on the command line
  EXPECT_EQ(shown("device"), "cpu");
  EXPECT_THAT(flags_.Help(),
              HasSubstr("Which device computes. Takes auto, cpu, cuda, gpu. Default: auto.\n"));
}

TEST_F(FlagsTest, SizesAndTimesTakeUnits) {
  ASSERT_TRUE(flags_.ParseAll(Args{"--memory=1.5GiB", "--timeout", "250ms"}).ok());
  EXPECT_EQ(values_.memory, int64_t{3} << 29);
  EXPECT_EQ(values_.timeout, std::chrono::milliseconds(250));
  ASSERT_TRUE(flags_.ParseAll(Args{"--memory=2097152", "--timeout", "5m"}).ok());
  EXPECT_EQ(values_.memory, 2 << 20);
  EXPECT_EQ(values_.timeout, std::chrono::minutes(5));
}

TEST_F(FlagsTest, AWrongValueIsNamedWithItsFlagAndItsBound) {
  EXPECT_EQ(ErrorOf({"--max-tokens", "5000"}),
            "--max-tokens is \"5000\"; it must be a whole number from 1 to 4096");
  EXPECT_EQ(ErrorOf({"--max-tokens=1x"}),
            "--max-tokens is \"1x\"; it must be a whole number from 1 to 4096");
  EXPECT_EQ(ErrorOf({"--seed=9223372036854775808"}),
            "--seed is \"9223372036854775808\"; it must be a whole number");
  EXPECT_EQ(ErrorOf({"--rate=nan"}), "--rate is \"nan\"; it must be a number from 0.001 to 1e+06");
  EXPECT_EQ(ErrorOf({"--temperature=inf"}), "--temperature is \"inf\"; it must be a number");
  EXPECT_EQ(ErrorOf({"--device=tpu"}),
            "--device is \"tpu\"; it must be one of auto, cpu, cuda, gpu");
  EXPECT_EQ(ErrorOf({"--level="}), "--level is \"\"; it must be one of low, high");
  EXPECT_EQ(
      ErrorOf({"--memory=10KiB"}),
      "--memory is \"10KiB\"; it must be a size in bytes, KiB, MiB, GiB or TiB at least 1MiB");
  EXPECT_EQ(
      ErrorOf({"--timeout=1ms"}),
      "--timeout is \"1ms\"; it must be a time (examples: 500ms, 30s, 5m) from 10ms to 3600s");
  for (const std::string_view bad : {"--memory=9e30", "--memory=1.0000001KiB", "--timeout=s",
                                     "--timeout=nan", "--max-tokens=", "--rate= 1"}) {
    EXPECT_EQ(flags_.ParseAll(Args{bad}).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(values_.max_tokens, 16) << "a refused value changes nothing";
}

TEST_F(FlagsTest, AnUnknownFlagIsNamedWithTheNearestOne) {
  EXPECT_EQ(ErrorOf({"--max_tokens=3"}), "unknown flag --max_tokens; did you mean --max-tokens?");
  EXPECT_EQ(ErrorOf({"--modle", "x"}), "unknown flag --modle; did you mean --model?");
  EXPECT_EQ(ErrorOf({"--zzzzzzz"}), "unknown flag --zzzzzzz; --help lists all flags");
}

TEST_F(FlagsTest, AFlagWithoutItsValueIsAnError) {
  EXPECT_EQ(ErrorOf({"--model"}), "--model needs a value: --model DIR");
  EXPECT_THAT(ErrorOf({"--model", "--json"}), HasSubstr("write --model=--json"));
  ASSERT_TRUE(flags_.ParseAll(Args{"--model", "--else"}).ok());
  EXPECT_EQ(values_.model, "--else");
}

TEST_F(FlagsTest, WhatIsNoFlagIsReturnedWhereItIsAllowed) {
  const auto others = flags_.Parse(Args{"one", "--json", "two", "--", "--three"});
  ASSERT_TRUE(others.ok());
  EXPECT_THAT(*others, ElementsAre("one", "two", "--three"));
  EXPECT_THAT(ErrorOf({"stray"}), HasSubstr("unexpected argument \"stray\""));
}

TEST_F(FlagsTest, HelpEndsTheParsingBeforeAnyLaterError) {
  ASSERT_TRUE(flags_.ParseAll(Args{"--help", "--nonsense"}).ok());
  EXPECT_TRUE(flags_.help_requested());
}

TEST_F(FlagsTest, HelpListsGroupsRangesAndDefaultsWithinAHundredColumns) {
  const std::string help = flags_.Help();
  EXPECT_THAT(help, HasSubstr("What to run:\n  --model DIR\n      The model's folder. Default: "
                              "models/tiny.\n"));
  EXPECT_THAT(help, HasSubstr("\n\nHow:\n  --json\n      Print one JSON object.\n"));
  EXPECT_THAT(help, HasSubstr("Length. Takes from 1 to 4096. Default: 16."));
  EXPECT_THAT(help, HasSubstr("Temperature.\n"))
      << "the limits of the type float are not shown as bounds";
  Flags wide;
  bool flag = false;
  const std::string text = std::string(50, 'a') + " " + std::string(60, 'b');
  wide.Switch({"wide", "", text}, flag);
  EXPECT_EQ(wide.Help(), "Options:\n  --wide\n      " + std::string(50, 'a') + "\n      " +
                             std::string(60, 'b') + "\n");
}

TEST_F(FlagsTest, AConfigurationFileSetsTheSameFlags) {
  ASSERT_TRUE(flags_.Set("max-tokens", "99").ok());
  EXPECT_EQ(values_.max_tokens, 99);
  EXPECT_TRUE(flags_.IsSet("max-tokens"));
  EXPECT_EQ(flags_.Set("max-token", "99").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(flags_.Set("json", "1").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(flags_.Values(), ::testing::Contains(Pair("max-tokens", "99")));
  EXPECT_THAT(flags_.Values(), ::testing::Contains(Pair("memory", "1GiB")));
  EXPECT_THAT(flags_.Values(), Not(::testing::Contains(Pair("help", ::testing::_))));
}

TEST_F(FlagsTest, EveryValueShownIsAcceptedBack) {
  ASSERT_TRUE(flags_.ParseAll(Args{"--timeout=15ms", "--memory=3MiB", "--rate=0.25"}).ok());
  for (const auto& [name, value] : flags_.Values()) {
    if (value.empty()) continue;
    EXPECT_TRUE(flags_.Set(name, value).ok()) << name << "=" << value;
  }
  EXPECT_EQ(values_.timeout, std::chrono::milliseconds(15));
  EXPECT_EQ(values_.memory, 3 << 20);
}

}  // namespace
}  // namespace incipit
