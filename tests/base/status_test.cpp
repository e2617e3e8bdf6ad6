#include "base/status.h"

#include <gtest/gtest.h>

namespace incipit {
namespace {

absl::StatusOr<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgument("value is {}; it must be even", value);
  return value / 2;
}

absl::StatusOr<int> Quarter(int value) {
  INCIPIT_ASSIGN_OR_RETURN(const int half, Half(value));
  INCIPIT_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

absl::Status CheckQuarter(int value) {
  INCIPIT_RETURN_IF_ERROR(Quarter(value).status());
  return absl::OkStatus();
}

TEST(StatusTest, AMessageIsFormattedAndCarriesItsCode) {
  const absl::Status status = Half(3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(status), "value is 3; it must be even");
}

TEST(StatusTest, TheFirstErrorIsReturnedAndAValuePassesThrough) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(MessageOf(CheckQuarter(6)), "value is 3; it must be even");
  EXPECT_TRUE(CheckQuarter(4).ok());
}

TEST(StatusTest, AnnotateKeepsTheCodeAndNamesTheContext) {
  const absl::Status status = Annotate(NotFound("no such key"), "config.json");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(status), "config.json: no such key");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "config.json").ok());
}

}  // namespace
}  // namespace incipit
