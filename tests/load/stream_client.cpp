// Runs many streams of a server at the same time, over gRPC or over HTTP. Measures the time between
// the messages of each stream, the CPU time of the server per token, and the memory of the server
// per stream. With --unread, some streams are not read, and the results contain how many of these
// streams the server has ended. Prints the results as one line of JSON.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <incipit/v1/inference.grpc.pb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/flags.h"
#include "base/host_port.h"
#include "base/status.h"
#include "tests/load/latencies.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

struct StreamOptions {
  std::string address;
  bool is_http = false;
  int32_t connections = 8, streams = 32, unread = 0, tokens = 500, prompt_tokens = 100;
  double warmup_seconds = 2, seconds = 10;
  int64_t server_pid = 0;

  int64_t num_streams() const { return int64_t{connections} * streams; }
  // Returns true if the stream number `index` is not read. These streams are spread evenly over all
  // connections.
  bool IsUnread(int64_t index) const {
    return index * unread / num_streams() != (index + 1) * unread / num_streams();
  }
};

// Number of log probabilities per output token that an unread stream requests. Large messages fill
// the buffers between server and client sooner.
constexpr uint32_t kUnreadLogprobs = 20;
// Size in bytes of the receive buffer of an HTTP stream that is not read.
constexpr int kUnreadBufferBytes = 4096;

void Bind(StreamOptions& o, Flags& flags) {
  flags.String({"address", "HOST:PORT", "Address of the server."}, o.address);
  flags.Switch({"http", "", "Sends completions over HTTP, one stream on each connection."},
               o.is_http);
  flags.Integer({"connections", "N", "Number of connections."}, o.connections, {1, 1 << 20});
  flags.Integer({"streams", "N", "Number of streams on each connection. 1 with --http."}, o.streams,
                {1, 1 << 20});
  flags.Integer(
      {"unread", "N", "Number of streams, of all connections together, that are not read."},
      o.unread, {0, 1 << 20});
  flags.Integer({"tokens", "N", "Number of output tokens of each stream."}, o.tokens, {1, 1 << 30});
  flags.Integer({"prompt-tokens", "N", "Number of tokens of each prompt."}, o.prompt_tokens,
                {1, 1 << 20});
  flags.Real({"warmup-seconds", "X",
              "Time from the first token of the last stream to the "
              "measurement."},
             o.warmup_seconds, {0, 3600});
  flags.Real({"seconds", "X", "Time of the measurement."}, o.seconds, {0, 3600});
  flags.Integer({"server-pid", "N", "Process ID of the server."}, o.server_pid, {1});
}

Time Now() { return std::chrono::steady_clock::now(); }

void Sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

double CpuSeconds(int64_t pid) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(static_cast<pid_t>(pid), &clock) != 0) return 0;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Returns the resident memory of the process `pid` in bytes: the present size ("VmRSS"), or the
// maximum since the process started ("VmHWM").
int64_t MemoryBytes(int64_t pid, std::string_view field) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field))
      return std::strtoll(line.c_str() + field.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

// Counts the messages of all streams, and records the times between them.
class Recorder {
 public:
  // Records a message of a stream. `last` is the time of the previous message of this stream.
  void OnMessage(Time& last) {
    const Time now = Now();
    if (last == Time{}) {
      ++num_begun_;
    } else if (measures_) {
      gaps_.Add(now - last);
    }
    last = now;
    ++num_messages_;
  }
  void OnEnd(bool ok) {
    if (!ok) ++num_failed_;
    ++num_ended_;
  }
  void SetMeasures(bool measures) { measures_ = measures; }

  int64_t num_messages() const { return num_messages_; }
  int64_t num_begun() const { return num_begun_; }
  int64_t num_failed() const { return num_failed_; }
  int64_t num_ended() const { return num_ended_; }
  Json Gaps() { return gaps_.Json(); }

 private:
  Latencies gaps_;
  std::atomic<bool> measures_ = false;
  std::atomic<int64_t> num_messages_ = 0, num_begun_ = 0, num_ended_ = 0, num_failed_ = 0;
};

// Recorders for the streams that are read, and for the streams that are not read.
struct Recorders {
  Recorder read, unread;
};

// A call of Generate.
class GrpcStream final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  GrpcStream(v1::Inference::Stub& stub, const StreamOptions& options, int32_t index,
             Recorders& recorders)
      : is_unread_(options.IsUnread(index)),
        recorder_(is_unread_ ? recorders.unread : recorders.read) {
    for (int32_t i = 0; i < options.prompt_tokens; ++i) {
      request_.mutable_token_ids()->add_ids(static_cast<uint32_t>(5 + (index * 31 + i * 7) % 200));
    }
    request_.mutable_sampling()->set_seed(index);
    request_.mutable_output()->set_max_tokens(static_cast<uint32_t>(options.tokens));
    request_.mutable_output()->set_ignore_eos(true);
    if (is_unread_) request_.mutable_output()->set_logprobs(kUnreadLogprobs);
    stub.async()->Generate(&context_, &request_, this);
    if (is_unread_) {
      AddHold();  // until Read
    } else {
      StartRead(&response_);
    }
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    recorder_.OnMessage(last_);
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override { recorder_.OnEnd(status.ok()); }
  // Reads an unread stream to its end. REQUIRES: called only once.
  void Read() {
    StartRead(&response_);
    RemoveHold();
  }
  bool is_unread() const { return is_unread_; }

 private:
  const bool is_unread_;
  Recorder& recorder_;
  grpc::ClientContext context_;
  v1::GenerateRequest request_;
  v1::GenerateResponse response_;
  Time last_{};
};

class GrpcStreams {
 public:
  GrpcStreams(const StreamOptions& options, Recorders& recorders) {
    for (int32_t i = 0; i < options.connections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      // Without this setting, gRPC enlarges the flow-control window of a stream, and an unread
      // stream would never fill its window.
      if (options.unread > 0) arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
      stubs_.push_back(v1::Inference::NewStub(grpc::CreateCustomChannel(
          options.address, grpc::InsecureChannelCredentials(), arguments)));
      for (int32_t k = 0; k < options.streams; ++k) {
        streams_.push_back(std::make_unique<GrpcStream>(*stubs_.back(), options,
                                                        i * options.streams + k, recorders));
      }
    }
  }

  // Reads the streams that were not read before, until they end.
  void EndUnread() {
    for (const auto& stream : streams_) {
      if (stream->is_unread()) stream->Read();
    }
  }

 private:
  std::vector<std::unique_ptr<v1::Inference::Stub>> stubs_;
  std::vector<std::unique_ptr<GrpcStream>> streams_;
};

// Reads the responses of all HTTP connections on one thread.
class HttpStreams {
 public:
  HttpStreams(const StreamOptions& options, Recorders& recorders)
      : recorders_(recorders),
        epoll_(epoll_create1(0)),
        streams_(static_cast<size_t>(options.connections)) {
    for (size_t i = 0; i < streams_.size(); ++i) Open(options, i);
    thread_ = std::thread([this] { Read(); });
  }
  ~HttpStreams() {
    thread_.join();
    close(epoll_);
  }

  // Reads the streams that were not read before, until they end.
  void EndUnread() {
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (streams_[i].is_unread && streams_[i].fd >= 0) Watch(i);
    }
  }

 private:
  struct Stream {
    int fd = -1;
    bool is_unread = false;
    std::string tail;  // last bytes of the previous read, which may be the begin of an event
    Time last{};
  };
  static constexpr std::string_view kEvent = "data: {", kDone = "data: [";

  void Open(const StreamOptions& options, size_t index) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (const auto where = ParseHostPort(options.address); where.ok()) {
      address.sin_port = htons(where->port);
      inet_pton(AF_INET, where->host.c_str(), &address.sin_addr);
    }
    Stream& stream = streams_[index];
    stream.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    stream.is_unread = options.IsUnread(static_cast<int64_t>(index));
    if (stream.is_unread) {
      setsockopt(stream.fd, SOL_SOCKET, SO_RCVBUF, &kUnreadBufferBytes, sizeof kUnreadBufferBytes);
    }
    std::string ids;
    for (int32_t i = 0; i < options.prompt_tokens; ++i) {
      ids += fmt::format("{}{}", i > 0 ? "," : "",
                         5 + (static_cast<int32_t>(index) * 31 + i * 7) % 200);
    }
    const std::string body = fmt::format(
        R"({{"prompt":[{}],"max_tokens":{},"ignore_eos":true,"seed":{},"stream":true{}}})", ids,
        options.tokens, index,
        stream.is_unread ? fmt::format(R"(,"logprobs":{})", kUnreadLogprobs) : "");
    const std::string request = fmt::format(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: {}\r\n\r\n{}",
        body.size(), body);
    if (connect(stream.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        send(stream.fd, request.data(), request.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(request.size())) {
      End(stream, false);
    } else if (!stream.is_unread) {
      Watch(index);
    }
  }

  // Starts to read the stream with the number `index`.
  void Watch(size_t index) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = index;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, streams_[index].fd, &event) != 0) {
      End(streams_[index], false);
    }
  }

  void Read() {
    std::vector<epoll_event> events(256);
    while (recorders_.read.num_ended() + recorders_.unread.num_ended() <
           static_cast<int64_t>(streams_.size())) {
      const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 100);
      for (int i = 0; i < count; ++i) ReadSome(streams_[events[static_cast<size_t>(i)].data.u64]);
    }
  }

  void ReadSome(Stream& stream) {
    char buffer[16384];
    const ssize_t got = recv(stream.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got <= 0) return End(stream, false);
    std::string text = std::exchange(stream.tail, {});
    text.append(buffer, static_cast<size_t>(got));
    for (size_t at = 0; (at = text.find(kEvent, at)) != std::string::npos; at += kEvent.size()) {
      RecorderOf(stream).OnMessage(stream.last);
    }
    if (text.find(kDone) != std::string::npos) return End(stream, true);
    stream.tail = text.substr(text.size() - std::min(text.size(), kEvent.size() - 1));
  }

  void End(Stream& stream, bool ok) {
    if (stream.fd >= 0) close(std::exchange(stream.fd, -1));
    RecorderOf(stream).OnEnd(ok);
  }

  Recorder& RecorderOf(const Stream& stream) {
    return stream.is_unread ? recorders_.unread : recorders_.read;
  }

  Recorders& recorders_;
  const int epoll_;
  std::vector<Stream> streams_;
  std::thread thread_;
};

// Measures while all streams run, and then waits until all streams have ended. `end_unread` must
// read the unread streams to their ends.
Json Measure(const StreamOptions& options, int64_t bytes_before, Recorders& recorders,
             const std::function<void()>& end_unread) {
  Recorder& recorder = recorders.read;
  const int64_t num_streams = options.num_streams() - options.unread;
  while (recorder.num_begun() + recorder.num_failed() < num_streams) Sleep();
  std::this_thread::sleep_for(FromSeconds(options.warmup_seconds));
  recorder.SetMeasures(true);
  const Time begin = Now();
  const double cpu_begin = CpuSeconds(options.server_pid);
  const int64_t num_before = recorder.num_messages();
  std::this_thread::sleep_for(FromSeconds(options.seconds));
  const double cpu = CpuSeconds(options.server_pid) - cpu_begin;
  const int64_t num_messages = recorder.num_messages() - num_before;
  const double seconds = ToSeconds(Now() - begin);
  recorder.SetMeasures(false);
  const bool all_ran = recorder.num_ended() == 0;
  end_unread();
  while (recorders.unread.num_ended() < options.unread) Sleep();
  while (recorder.num_ended() < num_streams) Sleep();
  const int64_t growth = MemoryBytes(options.server_pid, "VmHWM") - bytes_before;
  const double tokens_per_message = static_cast<double>(num_streams * options.tokens) /
                                    static_cast<double>(recorder.num_messages());
  return {{"streams", num_streams},
          {"failed", recorder.num_failed()},
          {"unread", options.unread},
          {"unread_failed", recorders.unread.num_failed()},
          // False if at least one stream ended before the end of the measurement.
          {"all_ran", all_ran},
          {"seconds", seconds},
          {"tokens_per_message", tokens_per_message},
          {"server_cpu_seconds", cpu},
          {"us_per_token", cpu * 1e6 / (static_cast<double>(num_messages) * tokens_per_message)},
          {"memory_bytes_per_stream", growth / options.num_streams()},
          {"gaps", recorder.Gaps()}};
}

absl::Status Run(std::span<const std::string_view> args) {
  StreamOptions options;
  Flags flags;
  Bind(options, flags);
  INCIPIT_RETURN_IF_ERROR(flags.ParseAll(args));
  if (flags.help_requested()) {
    fmt::print("{}", flags.Help());
    return absl::OkStatus();
  }
  if (options.server_pid == 0) return InvalidArgument("--server-pid is missing");
  if (options.unread >= options.num_streams()) {
    return InvalidArgument("--unread is {}, but there are {} streams", options.unread,
                           options.num_streams());
  }
  if (options.is_http && options.streams != 1) return InvalidArgument("--http needs --streams 1");
  std::signal(SIGPIPE, SIG_IGN);
  const int64_t bytes_before = MemoryBytes(options.server_pid, "VmRSS");
  Recorders recorders;
  const auto measure = [&](const std::function<void()>& end_unread) {
    fmt::print("{}\n", Measure(options, bytes_before, recorders, end_unread).dump());
  };
  if (options.is_http) {
    HttpStreams streams(options, recorders);
    measure([&] { streams.EndUnread(); });
  } else {
    GrpcStreams streams(options, recorders);
    measure([&] { streams.EndUnread(); });
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace incipit

int main(int argc, char** argv) {
  const std::vector<std::string_view> args(argv + 1, argv + argc);
  const absl::Status status = incipit::Run(args);
  if (status.ok()) return 0;
  fmt::print(stderr, "stream_client: {}\n", incipit::MessageOf(status));
  return 2;
}
