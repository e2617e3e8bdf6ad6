#include "server/session/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/status.h"
#include "tests/support/temp_path.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ApiKeys Keys(std::string_view text) {
  const auto keys = ApiKeys::Parse(text);
  EXPECT_TRUE(keys.ok()) << keys.status();
  return *keys;
}

std::string ParseError(std::string_view text) {
  const auto keys = ApiKeys::Parse(text);
  EXPECT_EQ(keys.status().code(), absl::StatusCode::kInvalidArgument);
  return MessageOf(keys.status());
}

TEST(ApiKeysTest, WithoutKeysEveryClientIsAccepted) {
  const ApiKeys none;
  EXPECT_FALSE(none.are_required());
  for (const char* field : {"", "Bearer x", "Basic eDp5", "\xff"}) EXPECT_TRUE(none.Accept(field));
}

TEST(ApiKeysTest, AFileHasOneKeyInEachLine) {
  const ApiKeys keys = Keys("# comment\n\nfirst\r\n \t second \t\n#third\nlast~!=");
  EXPECT_TRUE(keys.are_required());
  for (const char* key : {"first", "second", "last~!="}) {
    EXPECT_TRUE(keys.Accept(std::string("Bearer ") + key)) << key;
  }
  for (const char* key : {"third", "#third", "comment", "# comment", "firs", "first1", "First",
                          "first second", "fir"}) {
    EXPECT_FALSE(keys.Accept(std::string("Bearer ") + key)) << key;
  }
}

TEST(ApiKeysTest, OnlyABearerKeyIsAccepted) {
  const ApiKeys keys = Keys("key");
  for (const char* field : {"Bearer key", "bearer key", "BEARER  key ", "Bearer \tkey"}) {
    EXPECT_TRUE(keys.Accept(field)) << field;
  }
  for (const char* field :
       {"", " ", "key", "Bearer", "Bearer ", "Basic key", "Bearerkey", "Bearer key key",
        "Bearer, key", "Bearer key, Bearer key", "Token key"}) {
    EXPECT_FALSE(keys.Accept(field)) << field;
  }
  EXPECT_FALSE(keys.Accept(std::string_view("Bearer key\0", 11)));
  EXPECT_FALSE(keys.Accept("Bearer " + std::string(1 << 20, 'k')));
}

TEST(ApiKeysTest, KeysMayHave512Bytes) {
  const std::string longest(kApiKeyBytesMax, 'k');
  EXPECT_TRUE(Keys(longest).Accept("Bearer " + longest));
  EXPECT_THAT(ParseError("a\n" + longest + "k"), HasSubstr("line 2 is not a key"));
}

TEST(ApiKeysTest, AnErrorNamesTheLineAndNotTheKey) {
  for (const char* line : {"se cret", "secr\xc3\xa9t", "secret\x01", "secret\x7f"}) {
    const std::string error = ParseError(std::string("good\n# c\n") + line + "\n");
    EXPECT_THAT(error, HasSubstr("line 3 is not a key"));
    EXPECT_THAT(error, Not(HasSubstr("secr")));
  }
  EXPECT_THAT(ParseError(std::string_view("a\0b", 3)), HasSubstr("line 1"));
}

TEST(ApiKeysTest, TheNumberOfKeysIsBounded) {
  std::string text;
  for (size_t i = 0; i < kApiKeysMax; ++i) text += "key" + std::to_string(i) + "\n";
  const ApiKeys keys = Keys(text);
  EXPECT_TRUE(keys.Accept("Bearer key0"));
  EXPECT_TRUE(keys.Accept("Bearer key1023"));
  EXPECT_FALSE(keys.Accept("Bearer key1024"));
  EXPECT_THAT(ParseError(text + "one-more"), HasSubstr("more than 1024 keys"));
  EXPECT_THAT(ParseError(""), HasSubstr("no key"));
  EXPECT_THAT(ParseError("\n\n# nothing\n   \n"), HasSubstr("no key"));
}

TEST(ApiKeysTest, AFileThatCannotBeReadIsAnErrorWithItsPath) {
  const std::string path = TempPath("api_keys_test");
  EXPECT_THAT(MessageOf(ApiKeys::Read(path + ".missing").status()), HasSubstr(path));
  EXPECT_THAT(MessageOf(ApiKeys::Read(testing::TempDir()).status()), HasSubstr(testing::TempDir()));
  const auto write = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    return ApiKeys::Read(path);
  };
  EXPECT_TRUE(write("key\n")->Accept("Bearer key"));
  EXPECT_THAT(MessageOf(write("secret key\n").status()), HasSubstr(path + ": line 1"));
  EXPECT_THAT(MessageOf(write(std::string(kApiKeyFileBytesMax + 1, '\n')).status()),
              HasSubstr("the maximum is 1048576 bytes"));
  std::remove(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(MessageOf(ApiKeys::Read(path).status()), HasSubstr(path)) << "a FIFO";
  std::remove(path.c_str());
}

}  // namespace
}  // namespace incipit
