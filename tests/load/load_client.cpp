// Sends calls to a server at a fixed rate (the flood). At the same time, the client measures the
// gaps between tokens of running streams, and the latency of health checks on old and new
// connections. The client also measures the CPU time of the server process. Prints the results as
// one line of JSON.
#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <incipit/v1/inference.grpc.pb.h>

#include <condition_variable>
#include <csignal>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/flags.h"
#include "base/mutex.h"
#include "base/status.h"
#include "tests/load/latencies.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

struct LoadOptions {
  std::string address, flood_address;
  double seconds = 10, warmup_seconds = 1;
  double flood_rate = 0;
  int32_t flood_calls = 0, flood_bytes = 1024, flood_connections = 4, flood_in_flight_max = 400;
  std::string flood_tenant;
  int32_t streams = 0, stream_tokens = 100'000, stream_prompt = 16;
  double health_interval_ms = 0, connect_interval_ms = 0;
  int64_t server_pid = 0;
};

void Bind(LoadOptions& o, Flags& flags) {
  flags.String({"address", "HOST:PORT", "Address of the server."}, o.address);
  flags.Real({"seconds", "X", "Duration of the measurement."}, o.seconds, {0, 3600});
  flags.Real({"warmup-seconds", "X", "Time for which the same load runs before the measurement."},
             o.warmup_seconds, {0, 3600});
  flags.String(
      {"flood-address", "HOST:PORT", "Address for the calls of the flood. Default: --address."},
      o.flood_address);
  flags.Real(
      {"flood-rate", "X",
       "Calls of Generate per second in the flood. 0: --flood-calls calls, one after another."},
      o.flood_rate, {0, 1e6});
  flags.Integer({"flood-calls", "N", "Number of calls in the flood if --flood-rate is 0."},
                o.flood_calls, {0, 10'000'000});
  flags.Integer({"flood-bytes", "N", "Bytes of text in each call of the flood."}, o.flood_bytes,
                {1, 1 << 30});
  flags.String({"flood-tenant", "NAME", "Value of x-tenant-id in the calls of the flood."},
               o.flood_tenant);
  flags.Integer({"flood-connections", "N", "Number of connections of the flood, used in turn."},
                o.flood_connections, {1, 1000});
  flags.Integer({"flood-in-flight-max", "N",
                 "Maximum number of flood calls in flight. Further calls are left out."},
                o.flood_in_flight_max, {1, 1 << 20});
  flags.Integer({"streams", "N", "Number of streams: calls of Generate whose tokens are timed."},
                o.streams, {0, 1 << 20});
  flags.Integer({"stream-tokens", "N", "Value of max_tokens of each stream."}, o.stream_tokens,
                {1, 1 << 30});
  flags.Integer({"stream-prompt", "N", "Number of prompt tokens of each stream."}, o.stream_prompt,
                {1, 1 << 20});
  flags.Real(
      {"health-interval-ms", "X", "Time between health checks on one connection. 0: no checks."},
      o.health_interval_ms, {0, 1e6});
  flags.Real({"connect-interval-ms", "X",
              "Time between health checks, each on a new connection. 0: no checks."},
             o.connect_interval_ms, {0, 1e6});
  flags.Integer(
      {"server-pid", "N", "Process ID of the server, whose CPU time is measured. 0: none."},
      o.server_pid, {0});
}

Time Now() { return std::chrono::steady_clock::now(); }

// Counts notifications. A thread can wait until a number of notifications has arrived, or until a
// time.
class Waiter {
 public:
  void Notify() {
    MutexLock lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void AwaitCount(int64_t count) {
    MutexLock lock(mutex_);
    while (count_ < count) changed_.wait(mutex_);
  }
  void AwaitTime(Time time) {
    MutexLock lock(mutex_);
    while (Now() < time) changed_.wait_until(mutex_, time);
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Opens a connection to `address` that no other channel uses.
std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

double CpuSeconds(int64_t pid) {
  clockid_t clock{};
  timespec time{};
  if (pid == 0 || clock_getcpuclockid(static_cast<pid_t>(pid), &clock) != 0 ||
      clock_gettime(clock, &time) != 0) {
    return 0;
  }
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

// Calls one RPC method repeatedly with the same message bytes. A single thread starts the calls.
// gRPC's threads report the ends of the calls.
class Caller {
 public:
  Caller(std::string method, const std::string& message, std::string tenant)
      : method_(std::move(method)), message_(Bytes(message)), tenant_(std::move(tenant)) {}
  ~Caller() { Await(); }

  // Starts a call on `channel`. `on_end` runs when the call ends; `on_end` may be null.
  void Start(const std::shared_ptr<grpc::Channel>& channel, std::function<void()> on_end) {
    auto* const call = new Call(channel);
    if (!tenant_.empty()) call->context.AddMetadata("x-tenant-id", tenant_);
    ++num_started_;
    call->stub.UnaryCall(&call->context, method_, {}, &message_, &call->response,
                         [this, call, on_end = std::move(on_end)](const grpc::Status& status) {
                           latencies_.Add(Now() - call->begin);
                           delete call;
                           if (on_end) on_end();
                           End(status.error_code());
                         });
  }
  void Await() { ended_.AwaitCount(num_started_); }
  int64_t num_in_flight() {
    MutexLock lock(mutex_);
    return num_started_ - num_ended_;
  }

  // Returns the latencies, and the number of ended calls for each status code.
  Json Result() {
    Json json = latencies_.Json();
    MutexLock lock(mutex_);
    for (const auto& [code, count] : codes_) json["codes"][std::to_string(code)] = count;
    return json;
  }

 private:
  struct Call {
    explicit Call(const std::shared_ptr<grpc::Channel>& channel) : stub(channel) {}
    grpc::GenericStub stub;
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    Time begin = Now();
  };

  void End(grpc::StatusCode code) {
    {
      MutexLock lock(mutex_);
      ++codes_[code];
      ++num_ended_;
    }
    ended_.Notify();
  }

  const std::string method_;
  const grpc::ByteBuffer message_;
  const std::string tenant_;
  Latencies latencies_;
  Waiter ended_;
  int64_t num_started_ = 0;  // used only by the thread that starts calls
  Mutex mutex_;
  int64_t num_ended_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int, int64_t> codes_ ABSL_GUARDED_BY(mutex_);
};

// A call of Generate that records the time between its messages.
class Stream final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Stream(v1::Inference::Stub& stub, const LoadOptions& options, int32_t index, Latencies& gaps)
      : gaps_(gaps) {
    v1::GenerateRequest request;
    for (int32_t i = 0; i < options.stream_prompt; ++i) {
      request.mutable_token_ids()->add_ids(static_cast<uint32_t>(5 + (index * 31 + i * 7) % 200));
    }
    request.mutable_sampling()->set_seed(index);
    request.mutable_output()->set_max_tokens(static_cast<uint32_t>(options.stream_tokens));
    request.mutable_output()->set_ignore_eos(true);
    request_ = request;
    stub.async()->Generate(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void AwaitFirst() { first_.AwaitCount(1); }
  void Cancel() { context_.TryCancel(); }
  grpc::Status AwaitEnd() {
    done_.AwaitCount(1);
    return status_;
  }

  void OnReadDone(bool ok) override {
    if (!ok) return first_.Notify();
    const Time now = Now();
    if (last_ != Time{}) gaps_.Add(now - last_);
    last_ = now;
    first_.Notify();
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Notify();
  }

 private:
  Latencies& gaps_;
  grpc::ClientContext context_;
  v1::GenerateRequest request_;
  v1::GenerateResponse response_;
  Time last_{};
  grpc::Status status_;
  Waiter first_, done_;
};

// An action that runs at a fixed interval during the measurement.
struct Periodic {
  Duration interval;
  std::function<void()> act;
  Time next{};
};

class Load {
 public:
  explicit Load(LoadOptions options) : options_(std::move(options)) {
    if (options_.flood_address.empty()) options_.flood_address = options_.address;
    v1::GenerateRequest request;
    while (static_cast<int32_t>(text_.size()) < options_.flood_bytes) text_ += "once upon a time ";
    text_.resize(static_cast<size_t>(options_.flood_bytes));
    request.set_text(text_);
    request.mutable_output()->set_max_tokens(1);
    flood_message_ = request.SerializeAsString();
    for (int32_t i = 0; i < options_.flood_connections; ++i) {
      flood_channels_.push_back(Connect(options_.flood_address));
    }
  }

  Json Run() {
    const auto channel = Connect(options_.address);
    const auto stub = v1::Inference::NewStub(channel);
    std::vector<std::unique_ptr<Stream>> streams;
    for (int32_t i = 0; i < options_.streams; ++i) {
      streams.push_back(std::make_unique<Stream>(*stub, options_, i, gaps_));
    }
    for (const auto& stream : streams) stream->AwaitFirst();
    Measure(options_.warmup_seconds);
    gaps_.Clear();
    Json json = Measure(options_.seconds);
    if (options_.streams > 0) json["streams"] = gaps_.Json();
    for (const auto& stream : streams) stream->Cancel();
    std::map<std::string, int> ends;
    for (const auto& stream : streams) {
      ++ends[std::to_string(stream->AwaitEnd().error_code())];
    }
    if (options_.streams > 0) json["streams"]["codes"] = ends;
    return json;
  }

 private:
  Json Measure(double seconds) {
    Caller flood("/incipit.v1.Inference/Generate", flood_message_, options_.flood_tenant);
    Caller health("/grpc.health.v1.Health/Check", "", ""),
        fresh("/grpc.health.v1.Health/Check", "", "");
    const Time begin = Now();
    const double cpu_begin = CpuSeconds(options_.server_pid);
    int64_t num_left_out = 0;
    if (options_.flood_rate == 0 && options_.flood_calls > 0) {
      OneByOne(flood);
    } else {
      num_left_out = AtRate(begin + FromSeconds(seconds), flood, health, fresh);
    }
    const double sent_seconds = ToSeconds(Now() - begin);
    flood.Await();
    const double cpu = CpuSeconds(options_.server_pid) - cpu_begin;
    const double all_seconds = ToSeconds(Now() - begin);
    health.Await();
    fresh.Await();
    Json json = {{"seconds", sent_seconds}, {"seconds_to_last_end", all_seconds}};
    if (options_.server_pid != 0) json["server_cpu_seconds"] = cpu;
    if (options_.flood_rate > 0 || options_.flood_calls > 0) {
      json["flood"] = flood.Result();
      json["flood"]["left_out"] = num_left_out;
    }
    if (options_.health_interval_ms > 0) json["health"] = health.Result();
    if (options_.connect_interval_ms > 0) json["connect"] = fresh.Result();
    return json;
  }

  void OneByOne(Caller& flood) {
    for (int32_t i = 0; i < options_.flood_calls; ++i) {
      flood.Start(flood_channels_.front(), nullptr);
      flood.Await();
    }
  }

  // Starts the calls of `flood`, `health` and `fresh` at their intervals until the time `end`.
  // Returns the number of flood calls that were left out because too many calls were in flight.
  int64_t AtRate(Time end, Caller& flood, Caller& health, Caller& fresh) {
    const auto health_channel = Connect(options_.address);
    int64_t num_due = 0, num_left_out = 0;
    std::vector<Periodic> all;
    if (options_.flood_rate > 0) {
      all.push_back({FromSeconds(1 / options_.flood_rate), [&] {
                       ++num_due;
                       if (flood.num_in_flight() >= options_.flood_in_flight_max) {
                         ++num_left_out;
                       } else {
                         const auto turn = static_cast<size_t>(num_due) % flood_channels_.size();
                         flood.Start(flood_channels_[turn], nullptr);
                       }
                     }});
    }
    if (options_.health_interval_ms > 0) {
      all.push_back({FromSeconds(options_.health_interval_ms / 1e3),
                     [&] { health.Start(health_channel, nullptr); }});
    }
    if (options_.connect_interval_ms > 0) {
      all.push_back({FromSeconds(options_.connect_interval_ms / 1e3), [&] {
                       const auto channel = Connect(options_.address);
                       fresh.Start(channel, [channel] {});
                     }});
    }
    for (Periodic& one : all) one.next = Now();
    Waiter timer;
    while (Now() < end) {
      Time next = end;
      for (Periodic& one : all) {
        while (one.next <= Now() && one.next < end) {
          one.act();
          one.next += one.interval;
        }
        next = std::min(next, one.next);
      }
      // Wait at least 1 ms, so that calls due within the same millisecond start together.
      timer.AwaitTime(std::min(end, std::max(next, Now() + std::chrono::milliseconds(1))));
    }
    return num_left_out;
  }

  LoadOptions options_;
  std::string text_, flood_message_;
  std::vector<std::shared_ptr<grpc::Channel>> flood_channels_;
  Latencies gaps_;
};

absl::Status Run(std::span<const std::string_view> args) {
  LoadOptions options;
  Flags flags;
  Bind(options, flags);
  INCIPIT_RETURN_IF_ERROR(flags.ParseAll(args));
  if (flags.help_requested()) {
    fmt::print("{}", flags.Help());
    return absl::OkStatus();
  }
  if (options.address.empty()) return InvalidArgument("--address is missing");
  std::signal(SIGPIPE, SIG_IGN);
  fmt::print("{}\n", Load(options).Run().dump());
  return absl::OkStatus();
}

}  // namespace
}  // namespace incipit

int main(int argc, char** argv) {
  const std::vector<std::string_view> args(argv + 1, argv + argc);
  const absl::Status status = incipit::Run(args);
  if (status.ok()) return 0;
  fmt::print(stderr, "load_client: {}\n", incipit::MessageOf(status));
  return 2;
}
