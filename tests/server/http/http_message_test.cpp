#include "server/http/http_message.h"

#include <gtest/gtest.h>

namespace incipit {
namespace {

TEST(HttpMessageTest, ThePathEndsBeforeTheQuery) {
  EXPECT_EQ(HttpRequestHead{.target = "/v1/models"}.path(), "/v1/models");
  EXPECT_EQ(HttpRequestHead{.target = "/v1/models?x=1?y"}.path(), "/v1/models");
  EXPECT_EQ(HttpRequestHead{.target = "?"}.path(), "");
  EXPECT_EQ(HttpRequestHead{}.path(), "");
}

TEST(HttpMessageTest, FindsFieldsWhateverTheCaseOfTheName) {
  const HttpRequestHead head{.fields = {{"hOsT", "a"}, {"Accept", ""}, {"Host", "b"}}};
  EXPECT_EQ(head.Field("Host"), "a");
  EXPECT_EQ(head.Field("ACCEPT"), "");
  EXPECT_EQ(head.Field("Origin"), "");
  EXPECT_EQ(head.NumFields("host"), 2u);
  EXPECT_EQ(head.NumFields("accept"), 1u);
  EXPECT_EQ(head.NumFields("hos"), 0u);
}

TEST(HttpMessageTest, ComparesOnlyAsciiLettersWithoutCase) {
  EXPECT_TRUE(EqualsIgnoringCase("Chunked", "cHUNKED"));
  EXPECT_FALSE(EqualsIgnoringCase("chunked", "chunked "));
  EXPECT_FALSE(EqualsIgnoringCase("[", "{"));
  EXPECT_FALSE(EqualsIgnoringCase("Ü", "ü"));
  EXPECT_EQ(LowerCase("AbÜ[1]"), "abÜ[1]");
}

TEST(HttpMessageTest, DecodesEscapesAndKeepsInvalidOnes) {
  EXPECT_EQ(PercentDecoded("org%2Fname"), "org/name");
  EXPECT_EQ(PercentDecoded("%41%62%2f"), "Ab/");
  EXPECT_EQ(PercentDecoded("a%"), "a%");
  EXPECT_EQ(PercentDecoded("a%2"), "a%2");
  EXPECT_EQ(PercentDecoded("%zz%-1%+1% 1"), "%zz%-1%+1% 1");
  EXPECT_EQ(PercentDecoded("%2541"), "%41");
  EXPECT_EQ(PercentDecoded("a+b"), "a+b");
}

TEST(HttpMessageTest, AHeadHasTheSizeOfTheBody) {
  HttpResponse response{.body = "{}"};
  EXPECT_EQ(HeadOf(response, HttpBody::kSized),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
            "Connection: keep-alive\r\n\r\n");
  response.closes = true;
  response.status = 503;
  response.fields = {{"Retry-After", "1"}, {"A", "b"}};
  EXPECT_EQ(HeadOf(response, HttpBody::kSized),
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\nRetry-After: 1\r\nA: b\r\nConnection: close\r\n\r\n");
}

TEST(HttpMessageTest, AResponseWithoutContentHasNoSize) {
  EXPECT_EQ(HeadOf({.status = 204, .content_type = ""}, HttpBody::kSized),
            "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
}

TEST(HttpMessageTest, AStreamHasNoSize) {
  const HttpResponse head{.content_type = "text/event-stream"};
  EXPECT_EQ(HeadOf(head, HttpBody::kChunked),
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
            "Connection: keep-alive\r\n\r\n");
  EXPECT_EQ(HeadOf(head, HttpBody::kToClose),
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
}

}  // namespace
}  // namespace incipit
