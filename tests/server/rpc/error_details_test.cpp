#include "server/rpc/error_details.h"

#include <gmock/gmock.h>
#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;

std::string TextOf(const std::string& path) {
  std::ifstream file(std::string(INCIPIT_SOURCE_DIR) + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ErrorDetailsTest, TheApiPageListsEveryReason) {
  const std::string page = TextOf("/docs/api.md");
  for (int i = 0; i <= static_cast<int>(Reason::kCannotResume); ++i) {
    EXPECT_THAT(page, HasSubstr("`" + std::string(NameOf(static_cast<Reason>(i))) + "`"));
  }
}

TEST(ErrorDetailsTest, TheCodeIsTheOneOfTheStatus) {
  for (int i = 0; i <= static_cast<int>(Reason::kCannotResume); ++i) {
    const absl::Status status = Refuse(static_cast<Reason>(i), "no");
    EXPECT_EQ(static_cast<int>(ToGrpcStatus(status).error_code()), static_cast<int>(status.code()));
    EXPECT_EQ(ErrorOf(status).reason, static_cast<Reason>(i));
  }
}

TEST(ErrorDetailsTest, ABoundTravelsAsMetadataOfTheReason) {
  const absl::Status status = WithBound(InvalidField("output.n", "is 17"), 16);
  google::rpc::Status rich;
  ASSERT_TRUE(rich.ParseFromString(ToGrpcStatus(status).error_details()));
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(rich.details(0).UnpackTo(&info));
  EXPECT_EQ(info.metadata().at("bound"), "16");
}

TEST(ErrorDetailsTest, LongMessagesAreCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "é";
  const grpc::Status status = ToGrpcStatus(FieldViolation("text", text));
  EXPECT_LT(status.error_message().size(), 1100u);
  google::rpc::Status rich;
  EXPECT_TRUE(rich.ParseFromString(status.error_details()));
}

TEST(ErrorDetailsTest, ARetryDelayTravelsWithTheReason) {
  const absl::Status status =
      WithRetryDelay(Refuse(Reason::kQueueFull, "full"), std::chrono::milliseconds(2500));
  google::rpc::Status rich;
  ASSERT_TRUE(rich.ParseFromString(ToGrpcStatus(status).error_details()));
  google::rpc::RetryInfo retry;
  google::rpc::ErrorInfo info;
  for (const auto& detail : rich.details()) {
    if (detail.Is<google::rpc::RetryInfo>()) detail.UnpackTo(&retry);
    if (detail.Is<google::rpc::ErrorInfo>()) detail.UnpackTo(&info);
  }
  EXPECT_EQ(retry.retry_delay().seconds(), 2);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
  EXPECT_EQ(info.reason(), "QUEUE_FULL");
  EXPECT_EQ(info.domain(), "incipit");
}

}  // namespace
}  // namespace incipit
