// Tests the chat page at the path / and the header fields that protect its users.
#include "server/http/chat_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "base/hash/sha256.h"
#include "tests/server/http/http_test_server.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Returns the content of the element `tag` in `page`. Fails the test if `page` does not have
// exactly one such element.
std::string_view ContentOf(std::string_view tag, std::string_view page) {
  const std::string begin = fmt::format("<{}>", tag), end = fmt::format("</{}>", tag);
  const size_t first = page.find(begin);
  EXPECT_NE(first, page.npos) << tag;
  const size_t last = page.find(end, first);
  EXPECT_NE(last, page.npos) << tag;
  EXPECT_EQ(page.find(fmt::format("<{}", tag), first + 1), page.npos) << "two elements " << tag;
  return page.substr(first + begin.size(), last - first - begin.size());
}

std::string HashSource(std::string_view text) {
  const Sha256Digest digest =
      Sha256(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
  const std::string bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
  return fmt::format("'sha256-{}'", absl::Base64Escape(bytes));
}

TEST(ChatPageTest, ThePolicyHasTheHashesOfScriptAndStyle) {
  HttpTestServer server;
  const HttpReply reply = server.Get("/");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const std::string policy = reply.Field("Content-Security-Policy");
  EXPECT_THAT(policy, StartsWith("default-src 'none'; "));
  for (const std::string& directive :
       {fmt::format("script-src {};", HashSource(ContentOf("script", reply.body))),
        fmt::format("style-src {};", HashSource(ContentOf("style", reply.body))),
        std::string("connect-src 'self';"), std::string("frame-ancestors 'none';"),
        std::string("base-uri 'none';"), std::string("form-action 'none';")}) {
    EXPECT_THAT(policy, HasSubstr(directive));
  }
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
}

TEST(ChatPageTest, TheOtherFieldsProtectTheReader) {
  HttpTestServer server;
  const HttpReply reply = server.Get("/?from=a-bookmark");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.Field("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(reply.Field("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(reply.Field("Referrer-Policy"), "no-referrer");
  EXPECT_EQ(reply.Field("Cache-Control"), "no-cache");
}

TEST(ChatPageTest, ThePageLoadsNothingAndMakesNoHtmlOfText) {
  const std::string page = ChatPage().body;
  EXPECT_THAT(page, StartsWith("<!doctype html>"));
  EXPECT_THAT(page, Not(HasSubstr("@CHAT_")));
  // The page contains only one address: the XML namespace of the SVG icon, which no browser loads.
  constexpr std::string_view kNamespace = "http://www.w3.org/2000/svg";
  const size_t found = page.find(kNamespace);
  ASSERT_NE(found, page.npos);
  EXPECT_EQ(page.find("://", found + kNamespace.size()), page.npos);
  const std::string_view script = ContentOf("script", page);
  for (const std::string_view maker : {"innerHTML", "outerHTML", "insertAdjacentHTML",
                                       "document.write", "DOMParser", "eval(", "Storage"}) {
    EXPECT_EQ(script.find(maker), script.npos) << maker;
  }
  // An event handler or a style in an attribute would need 'unsafe-inline' in the content security
  // policy of the page.
  EXPECT_EQ(page.find(" style=\""), page.npos);
  EXPECT_EQ(page.find(" onclick="), page.npos);
}

TEST(ChatPageTest, HeadHasTheSameFieldsAndNoBody) {
  HttpTestServer server;
  HttpClient client(server.port());
  client.Send(fmt::format("HEAD / HTTP/1.1\r\n{}\r\n", kHttpHost));
  const HttpReply reply = client.Read(/*has_body=*/false);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.Field("Content-Security-Policy"),
            server.Get("/").Field("Content-Security-Policy"));
  client.Send(HttpGet("/livez"));
  EXPECT_EQ(client.Read().body, "ok\n");
}

TEST(ChatPageTest, TheGuardsOfTheOtherPathsApply) {
  HttpTestServer server;
  EXPECT_EQ(server.Send("GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n").status, 421);
  EXPECT_EQ(server.Get("/", "Origin: https://attacker.example\r\n").status, 403);
  const HttpReply post = server.Post("/", "{}");
  EXPECT_EQ(post.status, 405);
  EXPECT_EQ(post.Field("Allow"), "GET, HEAD");
}

TEST(ChatPageTest, WebOffTurnsThePageOff) {
  TestServerConfig config = HttpConfig();
  config.options.web = false;
  HttpTestServer server(std::move(config));
  EXPECT_EQ(server.Get("/").status, 404);
  EXPECT_EQ(server.Post("/", "{}").status, 404);
  EXPECT_EQ(server.Get("/livez").status, 200);
}

}  // namespace
}  // namespace incipit
