#include "server/net/connection_listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <condition_variable>
#include <mutex>
#include <string>

#include "base/status.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;

constexpr Duration kPatience = std::chrono::seconds(20);

std::unique_ptr<ConnectionListener> Bind(const HostPort& address) {
  auto listener = ConnectionListener::Bind("address", address, kPatience);
  EXPECT_TRUE(listener.ok()) << listener.status();
  return *std::move(listener);
}

// Returns the socket of a connected client, or an invalid socket if the connection fails.
OwnedSocket Connect(int port) {
  OwnedSocket client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int result =
      connect(client.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return result == 0 ? std::move(client) : OwnedSocket();
}

int LowestFreeDescriptor() { return OwnedSocket(socket(AF_INET, SOCK_STREAM, 0)).fd(); }

// What a listener hands over.
class Connections {
 public:
  ConnectionListener::OnConnection Taker() {
    return [this](int, int connection) {
      const std::lock_guard lock(mutex_);
      taken_.emplace_back(connection);
      changed_.notify_all();
    };
  }
  void AwaitOne(size_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return taken_.size() >= number; });
  }
  int fd(size_t index) {
    const std::lock_guard lock(mutex_);
    return taken_.at(index).fd();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<OwnedSocket> taken_;
};

TEST(ConnectionListenerTest, HandsOverWhatCameBeforeAndAfterItsStart) {
  Connections connections;
  const auto listener = Bind({"127.0.0.1", 0});
  EXPECT_GT(listener->port(), 0);
  const OwnedSocket early = Connect(listener->port());
  ASSERT_GE(early.fd(), 0);
  listener->Start(connections.Taker());
  connections.AwaitOne(1);
  const OwnedSocket late = Connect(listener->port());
  connections.AwaitOne(2);
  ASSERT_EQ(send(connections.fd(1), "x", 1, 0), 1);
  char read = 0;
  EXPECT_EQ(recv(late.fd(), &read, 1, 0), 1);
  EXPECT_EQ(read, 'x');
}

TEST(ConnectionListenerTest, AConnectionThatCouldTakeADescriptorOfTheReserveIsClosed) {
  Connections connections;
  const auto listener = Bind({"127.0.0.1", 0});
  listener->Start(connections.Taker());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(LowestFreeDescriptor() + ConnectionListener::kReservedFiles);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  // Only reserved file descriptors are free, so the listener closes the new connection.
  const OwnedSocket refused = Connect(listener->port());
  char read = 0;
  EXPECT_EQ(recv(refused.fd(), &read, 1, 0), 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  const OwnedSocket taken = Connect(listener->port());
  connections.AwaitOne(1);
}

TEST(ConnectionListenerTest, AllAddressesTakeIpv4WhateverFamilyTheyAreWrittenIn) {
  for (const char* const host : {"0.0.0.0", "::"}) {
    Connections connections;
    const auto listener = ConnectionListener::Bind("address", {host, 0}, kPatience);
    if (!listener.ok()) GTEST_SKIP() << listener.status();
    (*listener)->Start(connections.Taker());
    const OwnedSocket client = Connect((*listener)->port());
    connections.AwaitOne(1);
  }
}

TEST(ConnectionListenerTest, AnEndedOneLeavesItsPort) {
  const int port = Bind({"127.0.0.1", 0})->port();
  EXPECT_LT(Connect(port).fd(), 0);
  Connections connections;
  const auto again = Bind({"127.0.0.1", static_cast<uint16_t>(port)});
  again->Start(connections.Taker());
  EXPECT_EQ(again->port(), port);
}

TEST(ConnectionListenerTest, WhatCannotBeBoundIsNamedWithItsFlag) {
  const auto listener = Bind({"127.0.0.1", 0});
  const HostPort taken{"127.0.0.1", static_cast<uint16_t>(listener->port())};
  for (const HostPort& address : {taken, HostPort{"203.0.113.1", 1}, HostPort{"a..b", 1}}) {
    const absl::Status status =
        ConnectionListener::Bind("admin-address", address, kPatience).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(MessageOf(status), HasSubstr("--admin-address " + ToString(address) + ": "));
  }
}

}  // namespace
}  // namespace incipit
