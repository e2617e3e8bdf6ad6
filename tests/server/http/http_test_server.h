// A complete server in the process of the test that serves OpenAI's API over HTTP.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "tests/server/http/http_client.h"
#include "tests/server/test_server.h"

namespace incipit {

using HttpJson = nlohmann::ordered_json;

inline TestServerConfig HttpConfig() {
  TestServerConfig config;
  config.options.http_address = {.address = {"127.0.0.1", 0}, .is_on = true, .is_required = true};
  config.chat_template =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.name }}{{ c.function.arguments.x }}{% endfor %}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}{{ suffix }}"
      "{% if tools is not none %}{{ tools[0].function.name }}{% endif %}";
  return config;
}

class HttpTestServer : public TestServer {
 public:
  explicit HttpTestServer(TestServerConfig config = HttpConfig()) : TestServer(std::move(config)) {}

  int port() { return *server().http_port(); }
  // Sends `bytes` on a new connection and returns the whole response.
  HttpReply Send(std::string_view bytes) {
    HttpClient client(port());
    client.Send(bytes);
    return client.Read();
  }
  HttpReply Post(std::string_view path, std::string_view body, std::string_view fields = "") {
    return Send(HttpPost(path, body, fields));
  }
  HttpReply Get(std::string_view path, std::string_view fields = "") {
    return Send(HttpGet(path, fields));
  }
  // Waits until no request holds a cache block.
  void AwaitIdle() {
    AwaitLoad([](const v1::GetLoadResponse& load) {
      return load.used_blocks() == 0 && load.running() == 0 && load.waiting() == 0;
    });
  }
};

// Returns the JSON value of `reply`. A body that is not JSON fails the test.
inline HttpJson JsonOf(const HttpReply& reply) {
  HttpJson json = HttpJson::parse(reply.body, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << reply.head << reply.body;
  return json.is_object() ? json : HttpJson::object();
}

// Returns the events of a whole stream, without [DONE]. `is_done` becomes true if the last event is
// [DONE].
inline std::vector<HttpJson> EventsOf(std::string_view stream, bool& is_done) {
  std::vector<HttpJson> events;
  is_done = false;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    EXPECT_TRUE(stream.starts_with("data: ") && end != std::string_view::npos) << stream;
    if (end == std::string_view::npos) break;
    EXPECT_FALSE(is_done) << "an event after [DONE]";
    const std::string_view data = stream.substr(6, end - 6);
    is_done = data == "[DONE]";
    if (!is_done) events.push_back(HttpJson::parse(data));
    stream.remove_prefix(end + 2);
  }
  return events;
}

}  // namespace incipit
