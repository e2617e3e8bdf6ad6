#include "base/json/json.h"

#include <string>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace incipit {
namespace {

using testing::HasSubstr;

std::string ErrorOf(std::string_view text, const JsonLimits& limits = {}) {
  const auto json = ParseJson(text, limits);
  EXPECT_EQ(json.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return MessageOf(json.status());
}

TEST(JsonTest, BuildsTheValueThatTheTextSays) {
  const std::string_view text =
      R"({"a":[1,-2,3.5,"x",true,null,[],{}],"b":{"c":[[1],[2,[3]]],"d":18446744073709551615}})";
  const auto json = ParseJson(text);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->dump(), text);
  EXPECT_EQ(ParseJson(" 7 ")->get<int>(), 7);
}

TEST(JsonTest, RefusesWhatIsNotJson) {
  for (const std::string_view text : {"", "{", "[1,]", "{\"a\":1,}", "{} {}", "nan", "Infinity",
                                      "'a'", "{\"a\":01}", "\"\xc3\x28\"", "\"\n\""}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("not valid JSON"));
  }
  EXPECT_EQ(ErrorOf(std::string_view("{}\0", 3)), "not valid JSON: error at byte 3");
}

TEST(JsonTest, RefusesAKeyThatStandsTwice) {
  EXPECT_THAT(ErrorOf(R"({"a":1,"b":{"c":1,"c":2}})"), HasSubstr("\"c\" occurs twice"));
  EXPECT_TRUE(ParseJson(R"([{"a":1},{"a":2}])").ok());
}

TEST(JsonTest, TheLastOfAllowedDuplicatesCounts) {
  constexpr JsonLimits kLimits = {.duplicate_keys = DuplicateKeys::kLastCounts};
  const std::string_view text = R"({"a":[1],"b":2,"a":{"c":3,"c":4}})";
  EXPECT_EQ(ParseJson(text, kLimits)->dump(), R"({"a":{"c":4},"b":2})");
  EXPECT_EQ(ParseJson<nlohmann::ordered_json>(text, kLimits)->dump(), R"({"a":{"c":4},"b":2})");
}

TEST(JsonTest, AnOrderedValueKeepsTheOrderOfItsKeys) {
  const std::string_view text = R"({"b":{"z":[{"y":1,"x":[]}],"a":2},"a":3})";
  EXPECT_EQ(ParseJson<nlohmann::ordered_json>(text)->dump(), text);
}

TEST(JsonTest, AnObjectIsNeededWhereItIsAskedFor) {
  EXPECT_TRUE(ParseJsonObject("{}", {}).ok());
  EXPECT_EQ(MessageOf(ParseJsonObject("[1]", {}).status()), "not a JSON object but array");
}

TEST(JsonTest, LimitsDepthNumberAndSize) {
  EXPECT_TRUE(ParseJson("[[[1]]]", {.depth_max = 3}).ok());
  EXPECT_THAT(ErrorOf("[[[1]]]", {.depth_max = 2}), HasSubstr("deeper than 2"));
  EXPECT_THAT(ErrorOf(std::string(1'000'000, '[')), HasSubstr("deeper than 64"));
  EXPECT_TRUE(ParseJson("[1,2]", {.values_max = 3}).ok());
  EXPECT_THAT(ErrorOf("[1,2]", {.values_max = 2}), HasSubstr("more than 2"));
  EXPECT_THAT(ErrorOf("[1,2]", {.bytes_max = 4}), HasSubstr("the maximum is 4 bytes"));
}

}  // namespace
}  // namespace incipit
