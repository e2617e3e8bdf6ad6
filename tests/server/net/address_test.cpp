#include "server/net/address.h"

#include <gtest/gtest.h>

namespace incipit {
namespace {

TEST(AddressTest, LoopbackHostsAreLocalhostAndTheAddressesOfTheLoopbackNetwork) {
  for (const char* host : {"localhost", "::1", "127.0.0.1", "127.255.255.254", "127.1"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host : {"", "0.0.0.0", "::", "128.0.0.1", "10.127.0.1", "127.",
                           "127.example.com", "localhost.example.com"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

}  // namespace
}  // namespace incipit
