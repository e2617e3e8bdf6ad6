#include "base/host_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;

TEST(HostPortTest, BracketsHoldAnIpv6Host) {
  const auto parsed = ParseHostPort("[::1]:80");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->host, "::1");
  EXPECT_EQ(parsed->port, 80);
}

TEST(HostPortTest, WhatIsNoHostWithAPortIsNamed) {
  for (const std::string text :
       {"", "9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-0", "127.0.0.1:9464s",
        "127.0.0.1:80,127.0.0.1:81", ":0", "[]:0", "::1:80"}) {
    const auto parsed = ParseHostPort(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(MessageOf(parsed.status()), HasSubstr("\"" + text + "\""));
  }
}

TEST(HostPortTest, TheTextOfAnAddressIsTakenBack) {
  for (const std::string text : {"localhost:0", "0.0.0.0:65535", "[::]:1", "[fe80::1%eth0]:80"}) {
    const auto parsed = ParseHostPort(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(ToString(*parsed), text);
  }
}

}  // namespace
}  // namespace incipit
