// Tests API keys: every gRPC method and every path of the HTTP server needs a key of
// --api-key-file, except health checks.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/http/http_test_server.h"

namespace incipit {
namespace {

using grpc::StatusCode;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kReflection =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
constexpr const char* kHealthCheck = "/grpc.health.v1.Health/Check";
// Values of the metadata entry `authorization` that the server must refuse. Each list contains all
// values of the entry in one RPC.
const std::vector<std::vector<std::string>> kWrong = {{},
                                                      {""},
                                                      {"Bearer"},
                                                      {"Bearer wrong"},
                                                      {"Basic secret"},
                                                      {"secret"},
                                                      {"Bearer s"},
                                                      {"Bearer secrets"},
                                                      {"Bearer secret", "Bearer secret"}};

TestServerConfig WithKeys(TestServerConfig config) {
  config.api_keys = "# keys\nother\nsecret\n";
  return config;
}

struct RawReply {
  grpc::Status status;
  std::vector<std::string> messages;
};

// Calls the gRPC method `method` with the serialized message `message` and the metadata entries
// `authorization`.
RawReply Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
              const std::string& message, const std::vector<std::string>& authorization,
              std::chrono::seconds timeout = std::chrono::seconds(60)) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  for (const std::string& value : authorization) context.AddMetadata("authorization", value);
  grpc::CompletionQueue queue;
  const auto wait = [&] {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return ok;
  };
  const auto call = grpc::GenericStub(channel).PrepareCall(&context, method, &queue);
  RawReply reply;
  call->StartCall(nullptr);
  bool goes_on = wait();
  if (goes_on) {
    const grpc::Slice slice(message);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    wait();
  }
  while (goes_on) {
    grpc::ByteBuffer bytes;
    call->Read(&bytes, nullptr);
    goes_on = wait();
    grpc::Slice slice;
    if (goes_on && bytes.DumpToSingleSlice(&slice).ok()) {
      reply.messages.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  call->Finish(&reply.status, nullptr);
  wait();
  return reply;
}

// Returns the names of all gRPC services, which the reflection service at `channel` lists.
std::vector<std::string> ServicesOf(const std::shared_ptr<grpc::Channel>& channel) {
  const std::string list_services = "\x3a\x01*";
  const RawReply reply = Call(channel, kReflection, list_services, {"Bearer secret"});
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  const auto* const type =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
          "grpc.reflection.v1alpha.ServerReflectionResponse");
  const std::unique_ptr<google::protobuf::Message> response(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  EXPECT_TRUE(reply.messages.size() == 1 && response->ParseFromString(reply.messages[0]));
  std::vector<std::string> names;
  const std::string text = response->DebugString(), begin = " name: \"";
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    names.push_back(text.substr(at, text.find('"', at) - at));
  }
  return names;
}

// Returns the paths of all gRPC methods at `channel` that need a key.
std::vector<std::string> MethodsOf(const std::shared_ptr<grpc::Channel>& channel) {
  std::vector<std::string> methods;
  for (const std::string& name : ServicesOf(channel)) {
    if (name == "grpc.health.v1.Health") continue;
    const auto* const service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    EXPECT_NE(service, nullptr) << name;
    for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
      methods.push_back("/" + name + "/" + service->method(i)->name());
    }
  }
  return methods;
}

void ExpectAllMethodsNeedAKey(const std::shared_ptr<grpc::Channel>& channel) {
  const std::string message = Greedy({5, 6, 7}, 2).SerializeAsString();
  for (const std::string& method : MethodsOf(channel)) {
    for (const auto& authorization : kWrong) {
      const RawReply reply = Call(channel, method, message, authorization);
      EXPECT_EQ(reply.status.error_code(), StatusCode::UNAUTHENTICATED)
          << method << " " << testing::PrintToString(authorization);
      EXPECT_THAT(reply.status.error_message(), HasSubstr("Bearer KEY"));
      EXPECT_TRUE(reply.messages.empty()) << method;
    }
    EXPECT_EQ(Call(channel, method, "\xff\xff", {}).status.error_code(),
              StatusCode::UNAUTHENTICATED)
        << method << ": the server parses the message before it checks the key";
    // The call may exceed its deadline, because a stream may have no end and Drain may wait.
    const RawReply reply =
        Call(channel, method, message, {"bearer secret"}, std::chrono::seconds(1));
    EXPECT_NE(reply.status.error_code(), StatusCode::UNAUTHENTICATED) << method;
  }
}

TEST(ApiKeyTest, EveryGrpcMethodNeedsAKey) {
  TestServer server(WithKeys({}));
  const auto services = ServicesOf(server.channel());
  EXPECT_THAT(services, Contains("incipit.v1.Inference"));
  EXPECT_THAT(services, Contains("incipit.v1.Admin"));
  EXPECT_THAT(services, Contains("grpc.reflection.v1alpha.ServerReflection"));
  ExpectAllMethodsNeedAKey(server.channel());
}

TEST(ApiKeyTest, EveryGrpcMethodOfTheAdminAddressNeedsAKey) {
  TestServerConfig config = WithKeys({});
  config.options.admin_address = {"127.0.0.1", 0};
  TestServer server(config);
  const auto channel =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(server.server().admin_port()),
                          grpc::InsecureChannelCredentials());
  EXPECT_THAT(ServicesOf(channel), Contains("incipit.v1.Admin"));
  ExpectAllMethodsNeedAKey(channel);
  ExpectAllMethodsNeedAKey(server.channel());
}

TEST(ApiKeyTest, HealthChecksAndUnknownMethodsNeedNoKey) {
  TestServer server(WithKeys({}));
  const RawReply health = Call(server.channel(), kHealthCheck, "", {});
  EXPECT_TRUE(health.status.ok()) << health.status.error_message();
  EXPECT_EQ(health.messages, std::vector<std::string>{"\x08\x01"});
  EXPECT_TRUE(Call(server.channel(), kHealthCheck, "", {"Bearer wrong"}).status.ok());
  EXPECT_EQ(Call(server.channel(), "/incipit.v1.Inference/Other", "", {}).status.error_code(),
            StatusCode::UNIMPLEMENTED);
}

TEST(ApiKeyTest, ACallWithAKeyHasTheTokensOfTheModel) {
  TestServer server(WithKeys({}));
  for (const char* key : {"secret", "other"}) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", std::string("Bearer ") + key);
    const auto reader = server.inference().Generate(&context, Greedy({5, 6, 7}, 10));
    const Reply reply = Collect(*reader);
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    EXPECT_EQ(reply.choices[0].ids, Expected({5, 6, 7}, 10));
  }
}

TEST(ApiKeyTest, ARefusedCallHasAReasonIsCountedAndDoesNothing) {
  TestServer server(WithKeys({}));
  const std::string counter = R"(incipit_requests_rejected_total{reason="unauthenticated"})";
  const Reply reply = Ask(server.inference(), Greedy({5, 6, 7}, 10));
  EXPECT_EQ(ReasonOf(reply.status), "INVALID_API_KEY");
  v1::TokenizeResponse tokens;
  grpc::ClientContext first, second;
  EXPECT_EQ(ReasonOf(server.inference().Tokenize(&first, {}, &tokens)), "INVALID_API_KEY");
  v1::DrainResponse drained;
  EXPECT_EQ(ReasonOf(server.admin().Drain(&second, {}, &drained)), "INVALID_API_KEY");
  EXPECT_EQ(server.Metric(counter), 2);
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer secret");
  v1::GetLoadResponse load;
  ASSERT_TRUE(server.admin().GetLoad(&context, {}, &load).ok());
  EXPECT_FALSE(load.draining());
}

TEST(ApiKeyTest, WithoutAFileAKeyIsIgnored) {
  TestServer server;
  for (const auto& authorization : kWrong) {
    EXPECT_TRUE(
        Call(server.channel(), "/incipit.v1.Admin/GetModelInfo", "", authorization).status.ok());
  }
  EXPECT_FALSE(ServicesOf(server.channel()).empty());
}

TEST(ApiKeyTest, TheKeysAreNotInTheServerInfo) {
  TestServerConfig config = WithKeys({});
  config.options.api_key_file = "/path/of/keys";
  TestServer server(config);
  const RawReply reply =
      Call(server.channel(), "/incipit.v1.Admin/GetServerInfo", "", {"Bearer secret"});
  ASSERT_EQ(reply.messages.size(), 1u);
  for (const char* text : {"secret", "/path/of/keys"}) {
    EXPECT_THAT(reply.messages[0], Not(HasSubstr(text)));
  }
}

constexpr std::string_view kKey = "Authorization: Bearer secret\r\n";

// Sends a request with the header fields `fields` to the path `path`. The method is POST if `path`
// needs a body.
HttpReply Ask(HttpTestServer& server, const std::string& path, std::string_view fields) {
  const bool posts = path.ends_with("completions") || path.ends_with("tokenize");
  return posts ? server.Post(path, R"({"prompt":"a","tokens":[70],"messages":[]})", fields)
               : server.Get(path, fields);
}

TEST(ApiKeyTest, EveryHttpPathExceptHealthNeedsAKey) {
  HttpTestServer server(WithKeys(HttpConfig()));
  for (const char* path :
       {"/v1/models", "/v1/models/fake", "/v1/completions", "/v1/chat/completions", "/tokenize",
        "/detokenize", "/version", "/metrics", "/other"}) {
    for (const auto& values : kWrong) {
      std::string fields;
      for (const std::string& value : values) fields += "Authorization: " + value + "\r\n";
      const HttpReply reply = Ask(server, path, fields);
      EXPECT_EQ(reply.status, 401) << path << " " << fields;
      EXPECT_EQ(reply.Field("WWW-Authenticate"), "Bearer");
      const HttpJson error = JsonOf(reply)["error"];
      EXPECT_EQ(error["code"], "invalid_api_key");
      EXPECT_EQ(error["type"], "authentication_error");
      EXPECT_EQ(error["param"], nullptr);
    }
    EXPECT_NE(Ask(server, path, kKey).status, 401) << path;
  }
  for (const char* path : {"/", "/health", "/readyz", "/livez"}) {
    EXPECT_EQ(server.Get(path).status, 200) << path;
    EXPECT_EQ(server.Get(path, "Authorization: Bearer wrong\r\n").status, 200) << path;
  }
  EXPECT_GT(server.Metric(R"(incipit_requests_rejected_total{reason="unauthenticated"})"), 0);
}

TEST(ApiKeyTest, AnHttpRequestWithAKeyHasTheTokensOfTheModel) {
  HttpTestServer server(WithKeys(HttpConfig()));
  const HttpReply reply = server.Post(
      "/v1/completions",
      R"({"prompt":"hello","max_tokens":5,"temperature":0,"seed":0,"return_token_ids":true})",
      kKey);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(JsonOf(reply)["choices"][0]["token_ids"],
            HttpJson(Expected(BytesAsTokens("hello"), 5)));
}

TEST(ApiKeyTest, ARequestWithoutAKeyIsRefusedBeforeItsBody) {
  HttpTestServer server(WithKeys(HttpConfig()));
  HttpClient client(server.port());
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.Read().status, 401);
  EXPECT_TRUE(client.IsClosed());
}

TEST(ApiKeyTest, APreflightOfABrowserNeedsNoKey) {
  TestServerConfig config = WithKeys(HttpConfig());
  config.options.http_origins = {"https://app.example"};
  HttpTestServer server(config);
  const std::string origin = "Origin: https://app.example\r\n";
  HttpClient client(server.port());
  client.Send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + origin +
              "Access-Control-Request-Method: POST\r\n"
              "Access-Control-Request-Headers: authorization\r\n\r\n");
  const HttpReply preflight = client.Read(/*has_body=*/false);
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.Field("Access-Control-Allow-Headers"), "authorization");
  const HttpReply refused = server.Get("/v1/models", origin);
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.Field("Access-Control-Allow-Origin"), "https://app.example")
      << "the web page can read the error";
  EXPECT_EQ(server.Get("/v1/models", origin + std::string(kKey)).status, 200);
}

TEST(ApiKeyTest, TheMetricsAddressNeedsNoKey) {
  HttpTestServer server(WithKeys(HttpConfig()));
  HttpClient client(server.server().metrics_port());
  client.Send(HttpGet("/metrics"));
  EXPECT_EQ(client.Read().status, 200);
}

}  // namespace
}  // namespace incipit
