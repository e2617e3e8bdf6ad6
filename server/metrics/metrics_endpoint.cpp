#include "server/metrics/metrics_endpoint.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"

namespace incipit {
namespace {

// If no file descriptor is free: time until the next call of accept4.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

absl::StatusOr<OwnedSocket> Listen(const addrinfo& info) {
  OwnedSocket listener(
      socket(info.ai_family, info.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, info.ai_protocol));
  const int on = 1;
  if (listener.fd() < 0 ||
      setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(listener.fd(), info.ai_addr, info.ai_addrlen) != 0 ||
      listen(listener.fd(), SOMAXCONN) != 0) {
    return Unavailable("{}", std::strerror(errno));
  }
  return listener;
}

absl::StatusOr<OwnedSocket> Listen(const HostPort& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(address.host.c_str(), fmt::to_string(address.port).c_str(), &hints, &found)) {
    return Unavailable("{}", gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  absl::StatusOr<OwnedSocket> listener = Unavailable("no address");
  for (const addrinfo* info = found; info != nullptr && !listener.ok(); info = info->ai_next) {
    listener = Listen(*info);
  }
  return listener;
}

int PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  INCIPIT_CHECK(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  // The port is at the same offset in sockaddr_in (IPv4) and sockaddr_in6 (IPv6).
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

int PollTimeoutMs(Time deadline, Time now) {
  if (deadline == kNoDeadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::max<int64_t>(left, 0));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const HostPort& address, std::function<std::string()> text) {
  auto listener = Listen(address);
  if (!listener.ok()) {
    return Annotate(listener.status(),
                    fmt::format("cannot serve metrics at {}", ToString(address)));
  }
  OwnedSocket wake(eventfd(0, EFD_CLOEXEC));
  if (wake.fd() < 0) return Unavailable("cannot serve metrics: {}", std::strerror(errno));
  return std::unique_ptr<MetricsEndpoint>(
      new MetricsEndpoint(*std::move(listener), std::move(wake), std::move(text)));
}

MetricsEndpoint::MetricsEndpoint(OwnedSocket listener, OwnedSocket wake,
                                 std::function<std::string()> text)
    : listener_(std::move(listener)), wake_(std::move(wake)), text_(std::move(text)) {
  port_ = PortOf(listener_.fd());
  thread_ = std::thread([this] { Serve(); });
}

MetricsEndpoint::~MetricsEndpoint() {
  const uint64_t one = 1;
  INCIPIT_CHECK(write(wake_.fd(), &one, sizeof one) == sizeof one);
  thread_.join();
}

void MetricsEndpoint::Serve() {
  Time accept_after{};
  std::vector<pollfd> polled;
  while (true) {
    Time now = std::chrono::steady_clock::now();
    const bool accepts = now >= accept_after;
    Time wake_at = now >= accept_after ? kNoDeadline : accept_after;
    // poll ignores an entry whose file descriptor is negative.
    polled = {{wake_.fd(), POLLIN, 0}, {accepts ? listener_.fd() : -1, POLLIN, 0}};
    for (const Client& client : clients_) {
      const short events = client.response.empty() ? POLLIN : POLLOUT;
      polled.push_back({client.socket.fd(), events, 0});
      wake_at = std::min(wake_at, client.deadline);
    }
    const int num_ready = poll(polled.data(), polled.size(), PollTimeoutMs(wake_at, now));
    INCIPIT_CHECK(num_ready >= 0 || errno == EINTR);
    if (num_ready < 0) continue;
    if (polled[0].revents != 0) return;
    now = std::chrono::steady_clock::now();
    size_t index = 2;
    for (auto client = clients_.begin(); client != clients_.end(); ++index) {
      const bool is_ready = polled[index].revents != 0;
      const bool stays = now < client->deadline && (!is_ready || Advance(*client));
      client = stays ? std::next(client) : clients_.erase(client);
    }
    if (polled[1].revents != 0 && !Accept(now)) accept_after = now + kAcceptPause;
  }
}

bool MetricsEndpoint::Accept(Time now) {
  OwnedSocket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.fd() < 0) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  // If too many clients are connected, disconnects the client that connected first, because a
  // client that has been connected for so long is probably slow.
  if (clients_.size() >= kConnectionsMax) clients_.pop_front();
  clients_.push_back({std::move(socket), {}, {}, 0, now + kClientTimeout});
  return true;
}

bool MetricsEndpoint::Advance(Client& client) const {
  if (client.response.empty() && !Receive(client)) return false;
  while (client.num_sent < client.response.size()) {
    const ssize_t sent =
        send(client.socket.fd(), client.response.data() + client.num_sent,
             client.response.size() - client.num_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    client.num_sent += static_cast<size_t>(sent);
  }
  return client.response.empty();
}

bool MetricsEndpoint::Receive(Client& client) const {
  char buffer[2048];
  const ssize_t received = recv(client.socket.fd(), buffer, sizeof buffer, 0);
  if (received == 0) return false;
  if (received < 0) return errno == EAGAIN || errno == EINTR;
  client.request.append(buffer, static_cast<size_t>(received));
  const bool is_whole = client.request.find("\r\n\r\n") != std::string::npos;
  if (is_whole || client.request.size() > kRequestBytesMax) {
    client.response = ResponseTo(is_whole ? client.request : std::string_view());
  }
  return true;
}

std::string MetricsEndpoint::ResponseTo(std::string_view request) const {
  const auto response = [](std::string_view status, std::string_view body, bool sends_body) {
    return fmt::format(
        "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
        status, body.size(), sends_body ? body : std::string_view());
  };
  if (request.empty()) {
    return response("431 Request Header Fields Too Large",
                    "a request may have at most 8192 bytes\n", true);
  }
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const size_t first = line.find(' '), second = line.rfind(' ');
  if (first == second || !line.substr(second).starts_with(" HTTP/1.")) {
    return response("400 Bad Request", "the request is not an HTTP/1 request\n", true);
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  if (target.substr(0, target.find('?')) != "/metrics") {
    return response("404 Not Found", "only /metrics is served here\n", method != "HEAD");
  }
  if (method != "GET" && method != "HEAD") {
    return response("405 Method Not Allowed", "only GET and HEAD are allowed\n", true);
  }
  return response("200 OK", text_(), method == "GET");
}

}  // namespace incipit
