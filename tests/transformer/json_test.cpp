#include "transformer/json.h"

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
}

TEST(JsonTest, RefusesAKeyThatStandsTwice) {
  EXPECT_THAT(ErrorOf(R"({"a":1,"b":{"c":1,"c":2}})"), HasSubstr("\"c\" stands twice"));
  EXPECT_TRUE(ParseJson(R"([{"a":1},{"a":2}])").ok());
}

TEST(JsonTest, LimitsDepthNumberAndSize) {
  EXPECT_TRUE(ParseJson("[[[1]]]", {.depth_max = 3}).ok());
  EXPECT_THAT(ErrorOf("[[[1]]]", {.depth_max = 2}), HasSubstr("deeper than 2"));
  EXPECT_THAT(ErrorOf(std::string(1'000'000, '[')), HasSubstr("deeper than 64"));
  EXPECT_TRUE(ParseJson("[1,2]", {.values_max = 3}).ok());
  EXPECT_THAT(ErrorOf("[1,2]", {.values_max = 2}), HasSubstr("more than 2"));
  EXPECT_THAT(ErrorOf("[1,2]", {.bytes_max = 4}), HasSubstr("at most 4"));
}

}  // namespace
}  // namespace incipit
