#include "base/json/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "base/status.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kText = R"({"number": 7, "half": 0.5, "huge": 18446744073709551615,
  "text": "abc", "flag": true, "list": [1], "object": {"inner": null}, "null": null})";

class JsonFieldsTest : public ::testing::Test {
 protected:
  const nlohmann::json json_ = *ParseJson(kText);
  const JsonFields fields_{json_, "file[2]"};
};

template <typename T>
std::string ErrorOf(const absl::StatusOr<T>& result) {
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  return MessageOf(result.status());
}

TEST_F(JsonFieldsTest, ValuesOfTheRightTypeAreRead) {
  EXPECT_EQ(*fields_.Integer("number", {0, 7}), 7);
  EXPECT_EQ(*fields_.OptionalInteger("number", {0, 7}), 7);
  EXPECT_EQ(*fields_.OptionalNumber("half", {0, 1}), 0.5);
  EXPECT_EQ(*fields_.String("text"), "abc");
  EXPECT_EQ(*fields_.OptionalString("text"), "abc");
  EXPECT_TRUE(*fields_.Bool("flag", false));
  EXPECT_EQ((*fields_.Array("list"))->size(), 1u);
  EXPECT_TRUE((*fields_.Object("object"))->contains("inner"));
  int32_t number = 0;
  EXPECT_TRUE(fields_.Read("number", {0, 7}, number).ok());
  EXPECT_EQ(number, 7);
}

TEST_F(JsonFieldsTest, NullCountsAsAbsent) {
  for (const char* const key : {"null", "nowhere"}) {
    EXPECT_EQ(fields_.Find(key), nullptr);
    EXPECT_EQ(*fields_.OptionalInteger(key, {0, 1}), std::nullopt);
    EXPECT_EQ(*fields_.OptionalNumber(key, {0, 1}), std::nullopt);
    EXPECT_EQ(*fields_.OptionalString(key), std::nullopt);
    EXPECT_TRUE(*fields_.Bool(key, true));
    bool flag = true;
    EXPECT_TRUE(fields_.Read(key, flag).ok());
    EXPECT_TRUE(flag);
    const std::string missing = std::string("file[2].") + key + " is missing";
    EXPECT_EQ(ErrorOf(fields_.Integer(key, {0, 1})), missing);
    EXPECT_EQ(ErrorOf(fields_.String(key)), missing);
    EXPECT_EQ(ErrorOf(fields_.Array(key)), missing);
    EXPECT_EQ(ErrorOf(fields_.Object(key)), missing);
  }
  EXPECT_TRUE(fields_.Contains("null"));
  EXPECT_FALSE(fields_.Contains("nowhere"));
}

TEST_F(JsonFieldsTest, AWrongValueIsNamedWithItsPathAndItsBound) {
  EXPECT_EQ(ErrorOf(fields_.Integer("number", {8, 9})),
            "file[2].number is 7; it must be an integer from 8 to 9");
  EXPECT_THAT(ErrorOf(fields_.Integer("half", {0, 9})), HasSubstr("half is 0.5"));
  EXPECT_THAT(ErrorOf(fields_.Integer("huge", {0, 9})), HasSubstr("huge is 18446744073709551615"));
  EXPECT_EQ(ErrorOf(fields_.OptionalNumber("half", {0.5, 1})),
            "file[2].half is 0.5; it must be a number above 0.5 and at most 1");
  EXPECT_EQ(ErrorOf(fields_.String("list")), "file[2].list is [1]; it must be a string");
  EXPECT_EQ(ErrorOf(fields_.Bool("text", true)),
            "file[2].text is \"abc\"; it must be true or false");
  EXPECT_THAT(ErrorOf(fields_.Array("object")), HasSubstr("it must be an array"));
  EXPECT_THAT(ErrorOf(fields_.Object("list")), HasSubstr("it must be an object"));
  EXPECT_EQ(ErrorOf(JsonFields::Of(json_["list"], "file[3]")),
            "file[3] is [1]; it must be an object");
}

TEST(ShownValueTest, ALongValueIsCut) {
  EXPECT_EQ(ShownValue("\xff"), "\"\\ufffd\"");
  EXPECT_EQ(ShownValue(std::string(1000, 'x')), '"' + std::string(79, 'x') + "...");
}

}  // namespace
}  // namespace incipit
