#include "server/http/http_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace incipit {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Pair;

using Fields = std::vector<std::pair<std::string, std::string>>;

int StatusOf(const Fields& fields, const HttpGuardOptions& options = {},
             const std::string& method = "GET") {
  const auto refusal =
      CheckBrowser({.method = method, .target = "/v1/models", .fields = fields}, options);
  return refusal ? refusal->status : 200;
}

TEST(HttpGuardTest, ALoopbackListenerTakesOnlyItsOwnNames) {
  for (const char* host : {"localhost", "LocalHost", "localhost:8000", "127.0.0.1", "127.0.0.1:1",
                           "[::1]", "[::1]:8000", ""}) {
    EXPECT_EQ(StatusOf({{"Host", host}}), 200) << host;
  }
  for (const char* host :
       {"attacker.example", "attacker.example:8000", "localhost.attacker.example",
        "127.0.0.1.attacker.example", "attacker.example:localhost", "127.0.0.2", "0.0.0.0",
        "xlocalhost", "[::2]", "[::1", "::1", ":8000", "localhost@attacker.example", "[localhost]",
        "[::1]attacker.example", "localhost:attacker.example"}) {
    EXPECT_EQ(StatusOf({{"Host", host}}), 421) << host;
  }
}

TEST(HttpGuardTest, AFlagAllowsFurtherHosts) {
  const HttpGuardOptions options{.hosts = {"Llm.local", "[fe80::1]"}, .origins = {}};
  EXPECT_EQ(StatusOf({{"Host", "llm.LOCAL:8000"}}, options), 200);
  EXPECT_EQ(StatusOf({{"Host", "[FE80::1]:8000"}}, options), 200);
  EXPECT_EQ(StatusOf({{"Host", "x.llm.local"}}, options), 421);
  EXPECT_EQ(StatusOf({{"Host", "localhost"}}, options), 200);
}

TEST(HttpGuardTest, AListenerForOtherMachinesTakesEveryHost) {
  EXPECT_EQ(StatusOf({{"Host", "llm.example"}}, {.is_loopback = false, .hosts = {}, .origins = {}}),
            200);
}

TEST(HttpGuardTest, AForeignOriginIsRefused) {
  for (const bool is_loopback : {true, false}) {
    const HttpGuardOptions options{.is_loopback = is_loopback, .hosts = {}, .origins = {}};
    const auto status = [&](const char* origin) {
      return StatusOf({{"Host", "localhost:8000"}, {"Origin", origin}}, options);
    };
    EXPECT_EQ(status("http://localhost:8000"), 200);
    for (const char* origin :
         {"https://attacker.example", "null", "http://localhost:8000.attacker.example",
          "http://localhost:3000", "http://localhost", "localhost:8000",
          "http://attacker.example/http://localhost:8000", "file://", "http://127.0.0.1:8000"}) {
      EXPECT_EQ(status(origin), 403) << origin;
    }
    const Fields two = {{"Host", "localhost:8000"},
                        {"Origin", "http://localhost:8000"},
                        {"Origin", "https://attacker.example"}};
    EXPECT_EQ(StatusOf(two, options), 403);
  }
}

TEST(HttpGuardTest, AFlagAllowsOriginsAndTheirPagesMayReadTheResponse) {
  const HttpGuardOptions options{.hosts = {}, .origins = {"https://app.example"}};
  const Fields allowed = {
      {"Host", "localhost"}, {"Origin", "https://app.example"}, {"Sec-Fetch-Site", "cross-site"}};
  EXPECT_EQ(StatusOf(allowed, options), 200);
  EXPECT_THAT(CrossOriginFields({.fields = allowed}, options),
              Contains(Pair("Access-Control-Allow-Origin", "https://app.example")));
  for (const char* origin :
       {"https://app.example.attacker.example", "http://app.example", "https://app.example:444"}) {
    const Fields foreign = {{"Host", "localhost"}, {"Origin", origin}};
    EXPECT_EQ(StatusOf(foreign, options), 403) << origin;
    EXPECT_THAT(CrossOriginFields({.fields = foreign}, options), IsEmpty()) << origin;
  }
  EXPECT_THAT(CrossOriginFields({.fields = {{"Host", "localhost"}}}, options), IsEmpty());
}

TEST(HttpGuardTest, ARequestOfAnotherSiteWithoutAnOriginIsRefused) {
  const auto status = [](const char* site) {
    return StatusOf({{"Host", "localhost"}, {"Sec-Fetch-Site", site}});
  };
  EXPECT_EQ(status("cross-site"), 403);
  EXPECT_EQ(status("Cross-Site"), 403);
  EXPECT_EQ(status("same-origin"), 200);
  EXPECT_EQ(status("none"), 200);
}

TEST(HttpGuardTest, APostNeedsATypeThatAFormCannotSend) {
  const auto status = [](Fields fields) {
    fields.emplace_back("Host", "localhost");
    return StatusOf(fields, {}, "POST");
  };
  for (const char* type :
       {"application/json", "Application/JSON", "application/json; charset=utf-8",
        "application/json;charset=utf-8", "application/json "}) {
    EXPECT_EQ(status({{"Content-Type", type}}), 200) << type;
  }
  for (const char* type :
       {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a",
        "text/plain; application/json", "application/jsonx", "application/json,text/plain"}) {
    EXPECT_EQ(status({{"Content-Type", type}}), 415) << type;
  }
  EXPECT_EQ(status({}), 415);
}

}  // namespace
}  // namespace incipit
