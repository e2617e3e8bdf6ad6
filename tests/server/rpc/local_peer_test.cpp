#include "server/rpc/local_peer.h"

#include <gtest/gtest.h>

namespace incipit {
namespace {

TEST(LocalPeerTest, LoopbackAddressesAndUnixSocketsAreLocal) {
  for (const char* const peer :
       {"ipv4:127.0.0.1:4242", "ipv4:127.9.8.7:1", "ipv6:%5B::1%5D:4242", "ipv6:[::1]:4242",
        "ipv6:%5B::ffff:127.0.0.1%5D:4242", "ipv6:[::ffff:127.255.0.1]:1", "unix:/run/incipit",
        "unix-abstract:incipit"}) {
    EXPECT_TRUE(IsLocalPeer(peer)) << peer;
  }
}

TEST(LocalPeerTest, OthersAreNot) {
  for (const char* const peer :
       {"ipv4:128.0.0.1:4242", "ipv4:10.0.0.1:127", "ipv4:0.0.0.0:1", "ipv6:%5Bfe80::1%5D:4242",
        "ipv6:%5B::2%5D:1", "ipv6:[::ffff:10.0.0.1]:1", "ipv6:[::127.0.0.1]:1", "ipv6:::1:4242",
        "ipv4:127.0.0.1", "ipv4:127.0.0.1.evil:1", "ipv4:", "ipv6:", "ipv6:%5B", "ipv6:[", "",
        "127.0.0.1:1", "dns:localhost:1", "ipv4:localhost:1", "ipv6:[127.0.0.1]:1"}) {
    EXPECT_FALSE(IsLocalPeer(peer)) << peer;
  }
}

}  // namespace
}  // namespace incipit
