#include "tests/server/test_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/engine_options.h"

namespace incipit {
namespace {

// Returns the character for `byte` in a byte-level vocabulary, as UTF-8. A printable byte has the
// character with the same code. The other bytes have the characters from U+0100 on, in order.
std::string ByteName(int byte) {
  const auto is_printable = [](int b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  int code = byte;
  if (!is_printable(byte)) {
    code = 0x100;
    for (int b = 0; b < byte; ++b) code += is_printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

constexpr const char* kSpecialTokens[] = {"<s>", "</s>", "<|user|>", "<|assistant|>"};

template <typename Detail>
std::optional<Detail> DetailOf(const grpc::Status& status) {
  google::rpc::Status rich;
  if (!rich.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& any : rich.details()) {
    Detail detail;
    if (any.Is<Detail>() && any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

}  // namespace

void StepGate::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

void StepGate::Open() {
  {
    MutexLock lock(mutex_);
    closed_ = false;
  }
  changed_.notify_all();
}

void StepGate::Allow(int32_t num_steps) {
  {
    MutexLock lock(mutex_);
    num_allowed_ += num_steps;
  }
  changed_.notify_all();
}

void StepGate::FailNext(absl::Status status) {
  MutexLock lock(mutex_);
  next_.status = std::move(status);
}

void StepGate::PoisonNext(int32_t row) {
  MutexLock lock(mutex_);
  next_.poison_row = row;
}

void StepGate::AwaitWaiting() {
  MutexLock lock(mutex_);
  while (!waiting_) changed_.wait(mutex_);
}

StepGate::Order StepGate::Pass() {
  MutexLock lock(mutex_);
  waiting_ = true;
  changed_.notify_all();
  while (closed_ && num_allowed_ == 0) changed_.wait(mutex_);
  if (closed_) --num_allowed_;
  waiting_ = false;
  return std::exchange(next_, {});
}

absl::Status GatedRunner::Launch(const Step& step) {
  const StepGate::Order order = gate_.Pass();
  if (!order.status.ok()) return order.status;
  if (order.poison_row >= 0) PoisonNextStep(order.poison_row);
  return FakeRunner::Launch(step);
}

std::unique_ptr<Tokenizer> MakeByteTokenizer() {
  nlohmann::json vocabulary, added;
  for (int id = 0; id < kFirstByte; ++id) {
    vocabulary[kSpecialTokens[id]] = id;
    added.push_back({{"id", id},
                     {"content", kSpecialTokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  for (int byte = 0; byte < 256; ++byte) vocabulary[ByteName(byte)] = kFirstByte + byte;
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", true},
                                     {"use_regex", false}};
  const nlohmann::json all = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  auto tokenizer = Tokenizer::Parse(all.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::vector<TokenId> BytesAsTokens(std::string_view text) {
  std::vector<TokenId> tokens;
  for (const char c : text) tokens.push_back(kFirstByte + static_cast<unsigned char>(c));
  return tokens;
}

std::vector<MeasuredStep> StepsOf(Duration token_time) {
  std::vector<MeasuredStep> steps;
  for (int32_t i = 0; i < 60; ++i) {
    MeasuredStep& step = steps.emplace_back();
    step.shape.AddPromptChunk(0, 4 << i % 5);
    step.duration = token_time * step.shape.num_prompt_tokens;
  }
  return steps;
}

TestServer::TestServer(TestServerConfig config) {
  ServerParts parts;
  parts.model.name = "fake";
  parts.model.aliases = config.options.model_aliases;
  parts.model.vocab_size = kByteVocab;
  parts.model.max_model_len = config.max_model_len;
  parts.model.eos_ids = config.eos_ids;
  parts.model.has_tokenizer = config.has_tokenizer;
  if (config.has_tokenizer) parts.tokenizer = MakeByteTokenizer();
  TokenizerConfig text;
  text.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  if (!config.chat_template.empty()) text.chat_template = config.chat_template;
  if (!config.tool_chat_template.empty()) text.tool_chat_template = config.tool_chat_template;
  if (text.has_chat_template()) {
    auto chat_template = ChatTemplate::Parse(text);
    EXPECT_TRUE(chat_template.ok()) << chat_template.status();
    parts.chat_template = std::make_unique<ChatTemplate>(*std::move(chat_template));
    parts.model.has_chat_template = true;
  }
  if (!config.api_keys.empty()) {
    auto keys = ApiKeys::Parse(config.api_keys);
    EXPECT_TRUE(keys.ok()) << keys.status();
    parts.keys = *std::move(keys);
  }
  parts.prewarm = std::move(config.prewarm);
  if (config.starts_closed) gate_.Close();
  parts.description.architecture = "FakeForCausalLM";
  parts.description.backend = "fake";
  const Options& options = config.options;
  parts.runner = std::make_unique<GatedRunner>(
      FakeRunnerOptions{
          .num_blocks = config.num_blocks, .block_size = config.block_size, .vocab = kByteVocab},
      gate_);
  parts.engine.cache = CacheOptionsOf(options);
  parts.engine.cache.num_blocks = config.num_blocks;
  parts.engine.cache.block_size = config.block_size;
  parts.engine.scheduler = SchedulerOptionsOf(options);
  parts.engine.scheduler.step_tokens_max = config.step_tokens_max;
  parts.engine.scheduler.measured_steps = config.measured_steps;
  parts.engine.waiting_prompt_tokens_max = options.waiting_prompt_tokens_max;

  if (config.options.model.empty()) config.options.model = "fake";
  config.options.address = config.address;
  config.options.metrics_address = {"127.0.0.1", 0};
  ServerHooks hooks;
  hooks.on_fatal = [this](const absl::Status& status) {
    {
      MutexLock lock(mutex_);
      fatal_ = status;
    }
    failed_.notify_all();
  };
  auto server = Server::Start(config.options, std::move(parts), std::move(hooks));
  EXPECT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  channel_ = NewChannel();
  inference_ = v1::Inference::NewStub(channel_);
  admin_ = v1::Admin::NewStub(grpc::CreateChannel(
      "127.0.0.1:" + std::to_string(server_->admin_port()), grpc::InsecureChannelCredentials()));
}

TestServer::~TestServer() { Stop(); }

void TestServer::Stop() {
  gate_.Open();
  server_.reset();
}

absl::Status TestServer::AwaitFatal() {
  MutexLock lock(mutex_);
  while (fatal_.ok()) failed_.wait(mutex_);
  return fatal_;
}

std::shared_ptr<grpc::Channel> TestServer::NewChannel(
    const grpc::ChannelArguments& arguments) const {
  grpc::ChannelArguments own = arguments;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->grpc_port()),
                                   grpc::InsecureChannelCredentials(), own);
}

v1::GetLoadResponse TestServer::Load() {
  grpc::ClientContext context;
  v1::GetLoadResponse response;
  const grpc::Status status = admin_->GetLoad(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

void TestServer::AwaitLoad(const std::function<bool(const v1::GetLoadResponse&)>& done) {
  while (!done(Load())) {
  }
}

std::string TestServer::Scrape() const {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server_->metrics_port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  close(fd);
  return text;
}

double TestServer::Metric(const std::string& sample) const {
  const std::string text = Scrape();
  const size_t line = text.find("\n" + sample + " ");
  if (line == std::string::npos) {
    ADD_FAILURE() << sample << " is not served";
    return -1;
  }
  return std::stod(text.substr(line + sample.size() + 2));
}

Reply Collect(grpc::ClientReader<v1::GenerateResponse>& reader) {
  Reply reply;
  v1::GenerateResponse message;
  while (reader.Read(&message)) {
    ++reply.num_messages;
    reply.longest_message = std::max(reply.longest_message, message.ByteSizeLong());
    reply.request_id = message.request_id();
    reply.usage_is_last = message.has_usage();
    if (message.has_usage()) {
      ++reply.num_usages;
      reply.usage = message.usage();
    }
    for (const auto& row : message.prompt_logprobs()) reply.prompt_logprobs.push_back(row);
    for (const v1::Delta& delta : message.deltas()) {
      if (reply.choices.size() <= delta.choice()) reply.choices.resize(delta.choice() + 1);
      ChoiceOutput& choice = reply.choices[delta.choice()];
      EXPECT_EQ(choice.finish, v1::FINISH_REASON_UNSPECIFIED)
          << "a choice has a delta after its finish reason";
      choice.text += delta.text();
      for (const uint32_t id : delta.token_ids()) choice.ids.push_back(static_cast<TokenId>(id));
      for (const auto& row : delta.logprobs()) choice.logprobs.push_back(row);
      choice.finish = delta.finish_reason();
      choice.stop_string = delta.stop_string();
      if (delta.has_stop_token_id()) choice.stop_token = delta.stop_token_id();
    }
  }
  reply.status = reader.Finish();
  return reply;
}

Reply Ask(v1::Inference::Stub& stub, const v1::GenerateRequest& request,
          const std::string& tenant) {
  grpc::ClientContext context;
  if (!tenant.empty()) context.AddMetadata("x-tenant-id", tenant);
  return Collect(*stub.Generate(&context, request));
}

std::string ReasonOf(const grpc::Status& status) {
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  return info ? info->reason() : "";
}

std::string FieldOf(const grpc::Status& status) {
  const auto bad = DetailOf<google::rpc::BadRequest>(status);
  return bad && bad->field_violations_size() > 0 ? bad->field_violations(0).field() : "";
}

std::string BoundOf(const grpc::Status& status) {
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  if (!info || !info->metadata().contains("bound")) return "";
  return info->metadata().at("bound");
}

double RetrySecondsOf(const grpc::Status& status) {
  const auto retry = DetailOf<google::rpc::RetryInfo>(status);
  if (!retry) return -1;
  return static_cast<double>(retry->retry_delay().seconds()) + retry->retry_delay().nanos() * 1e-9;
}

v1::GenerateRequest Greedy(const std::vector<TokenId>& prompt, uint32_t num_tokens) {
  v1::GenerateRequest request;
  for (const TokenId token : prompt) {
    request.mutable_token_ids()->add_ids(static_cast<uint32_t>(token));
  }
  request.mutable_sampling()->set_temperature(0);
  request.mutable_sampling()->set_seed(0);
  request.mutable_output()->set_max_tokens(num_tokens);
  return request;
}

std::vector<TokenId> Expected(std::vector<TokenId> prompt, int32_t num_tokens, int32_t choice,
                              uint64_t seed) {
  const FakeModel model(kByteVocab);
  SamplingParams params;
  params.seed = seed;
  std::vector<TokenId> output;
  for (int32_t i = 0; i < num_tokens; ++i) {
    const StepSample sample = {
        .params = &params, .choice = choice, .position = static_cast<int64_t>(prompt.size())};
    output.push_back(model.Sample(FakeModel::Row(prompt), sample));
    prompt.push_back(output.back());
  }
  return output;
}

}  // namespace incipit
