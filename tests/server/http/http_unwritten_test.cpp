// Tests the number of bytes that an HTTP server keeps for clients that do not read.
#include <gtest/gtest.h>

#include "server/http/http_server.h"
#include "tests/server/http/http_client.h"

namespace incipit {
namespace {

// Size of a response, which is much larger than the buffers of the sockets.
constexpr size_t kBytes = 64 << 20;

TEST(HttpUnwrittenTest, BytesAreCountedUntilTheClientReadsOrDisconnects) {
  HttpHandlers handlers;
  handlers.check = [](const HttpRequestHead&) { return std::nullopt; };
  handlers.handle = [](const std::shared_ptr<HttpExchange>& exchange) {
    exchange->Respond({.body = std::string(kBytes, 'x')});
  };
  auto server = HttpServer::Start("http-address", {"127.0.0.1", 0}, {}, std::move(handlers));
  ASSERT_TRUE(server.ok()) << server.status();
  for (const bool reads : {true, false}) {
    HttpClient client((*server)->port(), /*receive_buffer=*/4096);
    client.Send(HttpGet("/"));
    while ((*server)->num_unwritten_bytes() == 0) {
    }
    EXPECT_GT((*server)->num_unwritten_bytes(), static_cast<int64_t>(kBytes));
    if (reads) {
      EXPECT_EQ(client.Read().body.size(), kBytes);
    } else {
      client.Reset();
    }
    while ((*server)->num_unwritten_bytes() != 0) {
    }
  }
}

}  // namespace
}  // namespace incipit
