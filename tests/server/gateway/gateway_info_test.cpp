// Tests the RPCs of VllmEngine that describe the server, and the tokenizer archive.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/hash/sha256.h"
#include "server/gateway/zip_archive.h"
#include "tests/server/gateway/gateway_client.h"
#include "tests/support/temp_path.h"

namespace incipit {
namespace {

namespace api = vllm::grpc::engine;
using grpc::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Calls `method` of the service with an empty request, and expects success.
template <typename Response, typename Method,
          typename Request = typename std::remove_cv_t<Response>>
Response Get(TestServer& server, Method method) {
  grpc::ClientContext context;
  Response response;
  const auto stub = VllmEngine::NewStub(server.channel());
  const grpc::Status status = method(*stub, context, response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

api::GetModelInfoResponse ModelInfo(TestServer& server) {
  return Get<api::GetModelInfoResponse>(server, [](auto& stub, auto& context, auto& response) {
    return stub.GetModelInfo(&context, {}, &response);
  });
}

api::SchedulerLoad Load(TestServer& server) {
  const auto response = Get<api::GetLoadsResponse>(
      server,
      [](auto& stub, auto& context, auto& out) { return stub.GetLoads(&context, {}, &out); });
  EXPECT_EQ(response.dp_rank_count(), 1);
  EXPECT_EQ(response.loads_size(), 1);
  return response.loads(0);
}

TEST(GatewayInfoTest, TheModelIsDescribed) {
  TestServerConfig config;
  config.eos_ids = {kByteEos};
  config.options.request.prompt_tokens_max = 500;
  TestServer server(std::move(config));
  const api::GetModelInfoResponse info = ModelInfo(server);
  EXPECT_EQ(info.served_model_name(), "fake");
  EXPECT_EQ(info.model_path(), "incipit:fake");
  EXPECT_TRUE(info.is_generation());
  EXPECT_FALSE(info.supports_vision());
  EXPECT_EQ(info.max_context_length(), 1024u);
  EXPECT_EQ(info.max_req_input_len(), 500);
  EXPECT_EQ(info.vocab_size(), static_cast<uint32_t>(kByteVocab));
  EXPECT_THAT(info.eos_token_ids(), ElementsAre(kByteEos));
  EXPECT_EQ(info.default_sampling_params_json(), "");
}

TEST(GatewayInfoTest, TheServerIsDescribed) {
  TestServer server;
  const auto info =
      Get<api::GetServerInfoResponse>(server, [](auto& stub, auto& context, auto& response) {
        return stub.GetServerInfo(&context, {}, &response);
      });
  EXPECT_EQ(info.data_parallel_size(), 1);
  EXPECT_EQ(info.block_size(), 16);
  EXPECT_EQ(info.max_num_seqs(), 128);
  EXPECT_FALSE(info.is_paused());
}

TEST(GatewayInfoTest, AServerThatServesIsHealthy) {
  TestServer server;
  const auto health =
      Get<api::HealthCheckResponse>(server, [](auto& stub, auto& context, auto& response) {
        return stub.HealthCheck(&context, {}, &response);
      });
  EXPECT_TRUE(health.healthy());
}

TEST(GatewayInfoTest, TheLoadIsReported) {
  TestServerConfig config;
  config.options.running_max = 1;
  TestServer server(std::move(config));
  const api::SchedulerLoad idle = Load(server);
  EXPECT_EQ(idle.num_total_reqs(), 0);
  EXPECT_EQ(idle.max_total_num_tokens(), 256 * 16);
  EXPECT_EQ(idle.max_running_requests(), 1);
  server.gate().Close();
  const std::vector<TokenId> prompt(32, 9);
  GatewayCall first(server, GatewayGreedy(prompt, 900, true));
  server.gate().AwaitWaiting();
  GatewayCall second(server, GatewayGreedy(prompt, 900, true));
  server.AwaitLoad([&](const auto& load) {
    server.gate().Allow(1);
    return load.running() == 1 && load.waiting() == 1 && load.used_blocks() > 0;
  });
  const api::SchedulerLoad busy = Load(server);
  EXPECT_EQ(busy.num_running_reqs(), 1);
  EXPECT_EQ(busy.num_waiting_reqs(), 1);
  EXPECT_EQ(busy.num_waiting_uncached_tokens(), 32);
  EXPECT_GE(busy.num_used_tokens(), 32);
  EXPECT_DOUBLE_EQ(busy.token_usage(), busy.num_used_tokens() / (256.0 * 16));
  server.gate().Open();
  EXPECT_TRUE(first.End().status.ok() && second.End().status.ok());
  EXPECT_GT(Load(server).gen_throughput(), 0);
}

TEST(GatewayInfoTest, FlushCacheEmptiesTheCache) {
  TestServer server;
  AskGateway(server, GatewayGreedy(std::vector<TokenId>(64, 9), 2, false));
  server.AwaitLoad([](const auto& load) { return load.cached_blocks() > 0; });
  const auto flush = [&] {
    return Get<smg::grpc::common::FlushCacheResponse>(
        server, [](auto& stub, auto& context, auto& response) {
          return stub.FlushCache(&context, {}, &response);
        });
  };
  EXPECT_TRUE(flush().success());
  EXPECT_EQ(server.Load().cached_blocks(), 0u);
  server.gate().Close();
  GatewayCall running(server, GatewayGreedy(std::vector<TokenId>(64, 9), 900, true));
  server.gate().AwaitWaiting();
  std::atomic<bool> is_flushed = false;
  std::thread flushing([&] {
    EXPECT_FALSE(flush().success());
    is_flushed = true;
  });
  // The engine thread tries to empty the cache only between two steps, so the test lets steps run.
  while (!is_flushed) {
    server.Load();
    server.gate().Allow(1);
  }
  flushing.join();
  server.gate().Open();
  EXPECT_TRUE(running.End().status.ok());
}

TEST(GatewayInfoTest, MethodsWithoutAFunctionAreUnimplemented) {
  TestServer server;
  const auto stub = VllmEngine::NewStub(server.channel());
  {
    grpc::ClientContext context;
    api::EmbedResponse response;
    EXPECT_EQ(stub->Embed(&context, {}, &response).error_code(), StatusCode::UNIMPLEMENTED);
  }
  smg::grpc::common::ProfileResponse response;
  {
    grpc::ClientContext context;
    EXPECT_EQ(stub->StartProfile(&context, {}, &response).error_code(), StatusCode::UNIMPLEMENTED);
  }
  grpc::ClientContext context;
  EXPECT_EQ(stub->StopProfile(&context, {}, &response).error_code(), StatusCode::UNIMPLEMENTED);
}

TEST(GatewayInfoTest, TheFlagTurnsTheServiceOff) {
  TestServerConfig config;
  config.options.engine_api = EngineApi::kOff;
  TestServer server(std::move(config));
  const GatewayReply reply = AskGateway(server, GatewayGreedy({10, 11}, 2, true));
  EXPECT_EQ(reply.status.error_code(), StatusCode::UNIMPLEMENTED);
}

TEST(GatewayInfoTest, ByDefaultTheServiceIsOnlyOnALoopbackAddress) {
  Options options;
  EXPECT_TRUE(HasEngineApi(options));
  options.address.host = "0.0.0.0";
  EXPECT_FALSE(HasEngineApi(options));
  options.engine_api = EngineApi::kOn;
  EXPECT_TRUE(HasEngineApi(options));
}

// A model folder with tokenizer files.
class GatewayTokenizerTest : public ::testing::Test {
 protected:
  GatewayTokenizerTest() : folder_(TempPath("gateway_tokenizer")) {
    std::filesystem::create_directories(folder_);
  }
  ~GatewayTokenizerTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  TestServerConfig Config() {
    TestServerConfig config;
    config.options.model = folder_.string();
    return config;
  }
  // Returns the archive, after a check of its SHA-256.
  static std::string Archive(TestServer& server, grpc::Status& status) {
    grpc::ClientContext context;
    const auto stub = VllmEngine::NewStub(server.channel());
    const auto reader = stub->GetTokenizer(&context, {});
    std::string archive, digest;
    smg::grpc::common::GetTokenizerChunk chunk;
    while (reader->Read(&chunk)) {
      EXPECT_EQ(digest, "") << "a chunk follows the chunk with the digest";
      EXPECT_LE(chunk.data().size(), size_t{64} << 10);
      archive += chunk.data();
      digest = chunk.sha256();
    }
    status = reader->Finish();
    if (!status.ok()) return archive;
    std::string expected;
    for (const uint8_t byte :
         Sha256({reinterpret_cast<const uint8_t*>(archive.data()), archive.size()})) {
      expected += fmt::format("{:02x}", byte);
    }
    EXPECT_EQ(digest, expected);
    return archive;
  }
  static std::string Archive(TestServer& server) {
    grpc::Status status;
    std::string archive = Archive(server, status);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return archive;
  }

  const std::filesystem::path folder_;
};

TEST_F(GatewayTokenizerTest, TheArchiveHasTheFilesOfTheFolder) {
  const std::string tokenizer(200'000, 'x');
  Write("tokenizer.json", tokenizer);
  Write("tokenizer_config.json", "{}");
  Write("chat_template.jinja", "template");
  Write("config.json", "{\"a\":1}");
  Write("generation_config.json", "{\"b\":1}");
  Write("model.safetensors", "weights");
  TestServer server(Config());
  const std::string expected = ZipOf(std::vector<ZipFile>{{"tokenizer.json", tokenizer},
                                                          {"tokenizer_config.json", "{}"},
                                                          {"chat_template.jinja", "template"},
                                                          {"config.json", "{\"a\":1}"},
                                                          {"generation_config.json", "{\"b\":1}"}});
  EXPECT_EQ(Archive(server), expected);
  Write("tokenizer.json", "changed");
  EXPECT_EQ(Archive(server), expected) << "the server must read the files of the archive only once";
}

TEST_F(GatewayTokenizerTest, TheArchiveHasTheChatTemplateOfTheFlag) {
  Write("tokenizer.json", "{}");
  Write("tokenizer_config.json", R"({"chat_template":"old","eos_token":"</s>"})");
  Write("chat_template.jinja", "old");
  Write("other.jinja", "new template");
  TestServerConfig config = Config();
  config.options.chat_template = {FileChoice::Kind::kFile, (folder_ / "other.jinja").string()};
  {
    TestServer server(config);
    const std::string archive = Archive(server);
    EXPECT_THAT(archive, HasSubstr("new template"));
    EXPECT_THAT(archive, HasSubstr(R"({"eos_token":"</s>"})"));
    EXPECT_THAT(archive, Not(HasSubstr("old")));
  }
  config.options.chat_template = {FileChoice::Kind::kNone};
  TestServer server(config);
  EXPECT_THAT(Archive(server), Not(HasSubstr("chat_template")));
}

TEST_F(GatewayTokenizerTest, AModelWithoutTokenizerHasNoArchive) {
  Write("config.json", "{}");
  TestServer server(Config());
  grpc::Status status;
  Archive(server, status);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status), "NO_TOKENIZER");
}

TEST_F(GatewayTokenizerTest, AClientThatDoesNotReadDelaysNeitherOthersNorTheEnd) {
  Write("tokenizer.json", std::string(40 << 20, 'x'));
  TestServer server(Config());
  const auto stub = VllmEngine::NewStub(server.channel());
  grpc::ClientContext context;
  const auto stalled = stub->GetTokenizer(&context, {});
  smg::grpc::common::GetTokenizerChunk chunk;
  ASSERT_TRUE(stalled->Read(&chunk));
  EXPECT_GT(Archive(server).size(), size_t{40} << 20);
  server.Stop();
  while (stalled->Read(&chunk)) {
  }
  EXPECT_FALSE(stalled->Finish().ok());
}

TEST(ZipArchiveTest, TheChecksumIsThatOfTheStandard) {
  EXPECT_EQ(Crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(Crc32(""), 0u);
}

TEST(ZipArchiveTest, TheBytesAreThoseOfTheFormat) {
  const std::string zip = ZipOf(std::vector<ZipFile>{{"a", "123456789"}});
  EXPECT_EQ(zip.substr(0, 4), std::string("PK\3\4"));
  EXPECT_EQ(zip.substr(30, 10), "a123456789");
  EXPECT_EQ(zip.substr(40, 4), std::string("PK\1\2"));
  EXPECT_EQ(zip.substr(zip.size() - 22, 4), std::string("PK\5\6"));
  EXPECT_EQ(zip.size(), 30u + 1 + 9 + 46 + 1 + 22);
}

}  // namespace
}  // namespace incipit
