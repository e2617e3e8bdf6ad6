#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "server/net/connection_listener.h"
#include "server/net/owned_socket.h"

namespace incipit {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;

// Returns the client's address and port on the connection `socket`, as HOST:PORT. Returns "unknown"
// if the operating system does not return the address.
std::string PeerOf(const Tcp::socket& socket) {
  boost::system::error_code error;
  const Tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return "unknown";
  return ToString({peer.address().to_string(), peer.port()});
}

Tcp ProtocolOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  const bool is_known = getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  return is_known && address.ss_family == AF_INET6 ? Tcp::v6() : Tcp::v4();
}

}  // namespace

// The listener (accepts connections), the threads and the open connections of an HTTP server.
class HttpServer::Threads {
 public:
  Threads(const HttpServerOptions& options, HttpHandlers handlers,
          std::unique_ptr<ConnectionListener> listener)
      : options_(options), handlers_(std::move(handlers)), listener_(std::move(listener)) {
    for (int i = 0; i < options_.num_threads; ++i) {
      contexts_.push_back(std::make_unique<asio::io_context>(1));
      guards_.emplace_back(contexts_.back()->get_executor());
      threads_.emplace_back([context = contexts_.back().get()] { context->run(); });
    }
    listener_->Start([this](int, int connection) { Accept(OwnedSocket(connection)); });
  }
  ~Threads() { Stop(Duration::zero()); }

  int port() const { return port_; }
  int64_t num_unwritten_bytes() const { return memory_.num_unwritten_bytes; }

  void Stop(Duration longest) {
    if (threads_.empty()) return;
    listener_.reset();
    ForEach([](HttpConnection& connection) { connection.CloseWhenIdle(); });
    {
      const auto deadline = std::chrono::steady_clock::now() + longest;
      MutexLock lock(mutex_);
      while (!connections_.empty() &&
             all_ended_.wait_until(mutex_, deadline) == std::cv_status::no_timeout) {
      }
    }
    ForEach([](HttpConnection& connection) { connection.Close(); });
    guards_.clear();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  struct Open {
    std::weak_ptr<HttpConnection> connection;
    bool is_leaving = false;  // true after CloseOldest has requested that the connection closes
  };

  // Creates an HttpConnection for the accepted socket `accepted`. Called on the thread that accepts
  // connections (the thread of `listener_`).
  void Accept(OwnedSocket accepted) {
    const int enabled = 1;
    setsockopt(accepted.fd(), IPPROTO_TCP, TCP_NODELAY, &enabled, sizeof(enabled));
    asio::io_context& context = *contexts_[next_context_++ % contexts_.size()];
    boost::system::error_code error;
    Tcp::socket socket(context);
    socket.assign(ProtocolOf(accepted.fd()), accepted.fd(), error);
    if (error) return;
    accepted.Release();
    std::string peer = PeerOf(socket);
    std::shared_ptr<HttpConnection> connection;
    {
      MutexLock lock(mutex_);
      if (connections_.size() >= static_cast<size_t>(options_.connections_max) && !CloseOldest()) {
        return;
      }
      const uint64_t id = next_id_++;
      connection =
          std::make_shared<HttpConnection>(std::move(socket), std::move(peer), options_.limits,
                                           handlers_, memory_, [this, id] { Forget(id); });
      connections_.emplace(id, Open{connection});
    }
    connection->Run();
  }

  // Closes the oldest connection without a response in progress. Returns false if no such
  // connection exists. The connection stays in `connections_` until the connection calls Forget.
  bool CloseOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (auto& [id, open] : connections_) {
      const auto connection = open.connection.lock();
      if (open.is_leaving || connection == nullptr || connection->is_responding()) continue;
      connection->CloseUnlessResponding();
      open.is_leaving = true;
      return true;
    }
    return false;
  }

  void Forget(uint64_t id) {
    MutexLock lock(mutex_);
    connections_.erase(id);
    if (connections_.empty()) all_ended_.notify_all();
  }

  template <typename Function>
  void ForEach(Function function) {
    std::vector<std::shared_ptr<HttpConnection>> open;
    {
      MutexLock lock(mutex_);
      for (const auto& [id, one] : connections_) {
        if (auto shared = one.connection.lock()) open.push_back(std::move(shared));
      }
    }
    for (const auto& connection : open) function(*connection);
  }

  const HttpServerOptions options_;
  const HttpHandlers handlers_;
  HttpMemory memory_{.body_bytes_max = options_.body_memory_max};
  std::unique_ptr<ConnectionListener> listener_;
  const int port_ = listener_->port();
  std::vector<std::unique_ptr<asio::io_context>> contexts_;
  // Objects that prevent the threads from ending while no connection is open.
  std::vector<asio::executor_work_guard<asio::io_context::executor_type>> guards_;
  std::vector<std::thread> threads_;
  // Number of accepted sockets so far. The next connection gets the context (event loop) whose
  // index is this number modulo the number of contexts. Only the thread of the listener uses the
  // number.
  size_t next_context_ = 0;

  Mutex mutex_;
  std::condition_variable_any all_ended_;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 0;
  // The open connections. The key is the number of the connection. The server numbers connections
  // in the order in which it accepts the connections.
  std::map<uint64_t, Open> connections_ ABSL_GUARDED_BY(mutex_);
};

HttpServer::HttpServer(std::unique_ptr<Threads> threads) : threads_(std::move(threads)) {}
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(std::string_view flag,
                                                              const HostPort& address,
                                                              const HttpServerOptions& options,
                                                              HttpHandlers handlers) {
  auto listener = ConnectionListener::Bind(flag, address, options.unacknowledged_max);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<HttpServer>(new HttpServer(
      std::make_unique<Threads>(options, std::move(handlers), *std::move(listener))));
}

int HttpServer::port() const { return threads_->port(); }
int64_t HttpServer::num_unwritten_bytes() const { return threads_->num_unwritten_bytes(); }
void HttpServer::Stop(Duration longest) { threads_->Stop(longest); }

}  // namespace incipit
