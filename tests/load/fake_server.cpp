// Runs the whole server over PacedRunner, which computes nothing, so that tests measure the cost of
// the server itself. A second port ends each call without parsing its message. Its cost is the
// lowest possible cost of a refused call. See docs/testing.md.
#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <incipit/v1/inference.grpc.pb.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/flags.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "server/engine_options.h"
#include "server/logging.h"
#include "server/options.h"
#include "server/server.h"
#include "tests/load/paced_runner.h"

namespace incipit {
namespace {

constexpr int32_t kDefaultVocab = 128256;
constexpr int32_t kDefaultContext = 131072;
constexpr int32_t kDefaultBlocks = 1 << 16;
constexpr int32_t kDefaultStepTokens = 8192;

struct FakeOptions {
  double step_time_ms = 0, token_time_us = 0;
  int32_t vocab = 0, sampled_token = -1, eos_token = -1;
};

void BindFakeOptions(FakeOptions& fake, Flags& flags) {
  flags.Group("Fake runner");
  flags.Real({"step-time-ms", "X", "Minimum duration of a step."}, fake.step_time_ms, {0, 60'000});
  flags.Real(
      {"token-time-us", "X", "Additional duration of a step for each token that it computes."},
      fake.token_time_us, {0, 1e6});
  flags.Integer({"vocab", "N",
                 "Size of the vocabulary. 0: size of the tokenizer's vocabulary; without a "
                 "tokenizer, 128256."},
                fake.vocab, {0, 1 << 24});
  flags.Integer({"sampled-token", "ID",
                 "Id of the token that each step samples. -1: each sampled token is a hash."},
                fake.sampled_token, {-1, 1 << 24});
  flags.Integer(
      {"eos-token", "ID", "Id of the token that ends a sequence. -1: there is no such token."},
      fake.eos_token, {-1, 1 << 24});
}

// Splits `args` into the arguments of `flags`, which all have a value, and the arguments of
// `incipit serve`.
void Split(std::span<const std::string_view> args, const Flags& flags,
           std::vector<std::string_view>& own, std::vector<std::string_view>& serve) {
  for (size_t i = 0; i < args.size(); ++i) {
    std::string_view name = args[i];
    if (i == 0 && name == "serve") continue;  // the command name of `incipit serve`
    const size_t equals = name.find('=');
    name = name.substr(0, equals);
    const auto values = flags.Values();
    const bool is_own = std::any_of(values.begin(), values.end(), [&](const auto& value) {
      return name.starts_with("--") && name.substr(2) == value.first;
    });
    auto& to = is_own ? own : serve;
    to.push_back(args[i]);
    if (is_own && equals == std::string_view::npos && i + 1 < args.size()) {
      to.push_back(args[++i]);
    }
  }
}

// Loads the tokenizer of --model. Loads the chat template of --chat-template, or the model's
// template if --chat-template is empty.
absl::Status LoadText(const Options& options, ServerParts& parts) {
  auto tokenizer = Tokenizer::Load(options.model);
  if (absl::IsNotFound(tokenizer.status())) return absl::OkStatus();
  INCIPIT_RETURN_IF_ERROR(tokenizer.status());
  parts.tokenizer = *std::move(tokenizer);
  parts.model.has_tokenizer = true;
  TokenizerConfig config = parts.tokenizer->config();
  if (options.chat_template.kind == FileChoice::Kind::kFile) {
    config.tool_chat_template.reset();
    INCIPIT_ASSIGN_OR_RETURN(config.chat_template, ReadTextFile(options.chat_template.path));
  }
  if (!config.has_chat_template()) return absl::OkStatus();
  INCIPIT_ASSIGN_OR_RETURN(ChatTemplate chat_template, ChatTemplate::Parse(config));
  parts.chat_template = std::make_unique<ChatTemplate>(std::move(chat_template));
  parts.model.has_chat_template = true;
  return absl::OkStatus();
}

absl::StatusOr<ServerParts> MakeParts(const FakeOptions& fake, const Options& options) {
  ServerParts parts;
  INCIPIT_RETURN_IF_ERROR(LoadText(options, parts));
  ServedModel& model = parts.model;
  model.name = options.model_name.empty() ? "fake" : options.model_name;
  model.vocab_size = fake.vocab > 0              ? fake.vocab
                     : parts.model.has_tokenizer ? parts.tokenizer->vocab_size()
                                                 : kDefaultVocab;
  model.max_model_len = options.max_model_len.value_or(kDefaultContext);
  if (std::max(fake.eos_token, fake.sampled_token) >= model.vocab_size) {
    return InvalidArgument("--eos-token and --sampled-token must be below {}", model.vocab_size);
  }
  PacedRunnerOptions runner;
  runner.vocab_size = model.vocab_size;
  runner.step_time = FromSeconds(fake.step_time_ms / 1e3);
  runner.token_time = FromSeconds(fake.token_time_us / 1e6);
  runner.sampled_token = fake.sampled_token;
  if (fake.eos_token >= 0) {
    model.eos_ids = {fake.eos_token};
    runner.avoided_tokens = model.eos_ids;
  }
  parts.runner = std::make_unique<PacedRunner>(std::move(runner));
  parts.description.architecture = "FakeForCausalLM";
  parts.description.backend = parts.description.backend_description = "fake";
  EngineOptions& engine = parts.engine;
  engine.cache = CacheOptionsOf(options);
  engine.cache.num_blocks = options.kv_blocks.value_or(kDefaultBlocks);
  engine.scheduler = SchedulerOptionsOf(options);
  engine.scheduler.step_tokens_max = options.step_tokens.value_or(kDefaultStepTokens);
  engine.scheduler.steps_in_flight_max = options.steps_in_flight.value_or(kStepsInFlightMax);
  engine.waiting_prompt_tokens_max = options.waiting_prompt_tokens_max;
  return parts;
}

using RawGenerate = v1::Inference::WithRawCallbackMethod_Generate<
    v1::Inference::WithRawCallbackMethod_Chat<v1::Inference::Service>>;

// A gRPC service that ends each call of Generate and Chat when the message of the call has arrived,
// without parsing the message.
class Baseline final : public RawGenerate {
 public:
  explicit Baseline(int64_t message_bytes_max) {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(static_cast<int>(message_bytes_max));
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Baseline() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  int port() const { return port_; }  // 0 if the port could not be opened

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext*,
                                                       const grpc::ByteBuffer*) override {
    return End();
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Chat(grpc::CallbackServerContext*,
                                                   const grpc::ByteBuffer*) override {
    return End();
  }

 private:
  class Ended final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
   public:
    Ended() { Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "baseline"}); }
    void OnDone() override { delete this; }
  };
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* End() { return new Ended; }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Writes the port file by a rename, so that readers see either the whole file or no file.
absl::Status WritePortFile(const std::string& path, const Server& server,
                           const Baseline& baseline) {
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << fmt::format(R"({{"grpc": {}, "metrics": {}, "admin": {}, "baseline": {})",
                      server.grpc_port(), server.metrics_port(), server.admin_port(),
                      baseline.port());
  if (const auto port = server.http_port()) file << fmt::format(R"(, "http": {})", *port);
  file << "}\n";
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(part, path, error);
  if (!file || error) return Unavailable("--port-file {} cannot be written", path);
  return absl::OkStatus();
}

absl::Status ServeUntilSignal(const Options& options, ServerParts parts, const sigset_t& signals) {
  INCIPIT_ASSIGN_OR_RETURN(const auto server, Server::Start(options, std::move(parts), {}));
  Baseline baseline(options.message_bytes_max);
  if (!options.port_file.empty()) {
    INCIPIT_RETURN_IF_ERROR(WritePortFile(options.port_file, *server, baseline));
  }
  fmt::print("serving gRPC on 127.0.0.1:{}, baseline on 127.0.0.1:{}\n", server->grpc_port(),
             baseline.port());
  std::fflush(stdout);
  int number = 0;
  sigwait(&signals, &number);
  server->BeginDrain();
  std::promise<void> idle;
  server->WhenIdle([&idle] { idle.set_value(); });
  idle.get_future().wait_for(options.drain_timeout);
  return absl::OkStatus();
}

absl::Status Run(std::span<const std::string_view> args) {
  FakeOptions fake;
  Flags fake_flags;
  BindFakeOptions(fake, fake_flags);
  std::vector<std::string_view> own, serve = {"--model", "none"};
  Split(args, fake_flags, own, serve);
  INCIPIT_RETURN_IF_ERROR(fake_flags.ParseAll(own));
  Options options;
  Flags flags;
  INCIPIT_RETURN_IF_ERROR(ParseOptions(serve, options, flags));
  if (flags.help_requested()) {
    fmt::print("{}\n{}", fake_flags.Help(), flags.Help());
    return absl::OkStatus();
  }
  StartLogging(options.log_level);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  // All threads that start later inherit the blocked signals.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  INCIPIT_ASSIGN_OR_RETURN(ServerParts parts, MakeParts(fake, options));
  grpc_init();  // grpc_shutdown is not called, as in `incipit serve`
  return ServeUntilSignal(options, std::move(parts), signals);
}

}  // namespace
}  // namespace incipit

int main(int argc, char** argv) {
  const std::vector<std::string_view> args(argv + 1, argv + argc);
  const absl::Status status = incipit::Run(args);
  if (status.ok()) return 0;
  fmt::print(stderr, "fake_server: {}\n", incipit::MessageOf(status));
  return 2;
}
