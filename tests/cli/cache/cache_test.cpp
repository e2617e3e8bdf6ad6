// Tests the arguments, the output and the exit codes of `incipit cache`.
#include "cli/cache/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "tests/cli/command_run.h"
#include "tests/tier/tier_harness.h"
#include "tier/files/posix_file_system.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;

class CacheCommandTest : public CommandTest {
 protected:
  void Fill(uint64_t count) {
    h_.Start();
    for (uint64_t i = 0; i < count; ++i) ASSERT_TRUE(h_.Store(TestChunk(1, i)));
    h_.tier.reset();
  }
  int Cache(const std::vector<std::string>& arguments) { return Run(&RunCache, arguments, ""); }
  nlohmann::json Json() const { return nlohmann::json::parse(OutLines().at(0)); }
  std::string Text() const {
    std::string text;
    for (const std::string& line : OutLines()) text += line + "\n";
    return text;
  }
  const std::string& path() const { return h_.directory.path(); }

  TierHarness h_;
};

TEST_F(CacheCommandTest, WrongCommandsAndArgumentsAreUsageErrors) {
  EXPECT_EQ(Cache({}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("inspect"));
  EXPECT_EQ(Cache({"--help"}), kExitOk);
  EXPECT_THAT(Text(), HasSubstr("verify"));
  EXPECT_EQ(Cache({"verfy", path()}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("did you mean verify?"));
  EXPECT_EQ(Cache({"inspect"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("DIR is missing"));
  EXPECT_EQ(Cache({"export", path()}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("FILE is missing"));
  EXPECT_EQ(Cache({"export", path(), "a", "b"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("only one FILE is allowed; remove the argument \"b\""));
  EXPECT_EQ(Cache({"export", path(), "a", "--fingerprint", "xyz"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--fingerprint xyz is wrong"));
  EXPECT_EQ(Cache({"import", path(), "a"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--size is 0"));
}

TEST_F(CacheCommandTest, AFolderThatCannotBeReadIsNamed) {
  const std::string absent = folder() + "/absent";
  for (const char* const command : {"inspect", "verify"}) {
    EXPECT_EQ(Cache({command, absent}), kExitUsage);
    EXPECT_THAT(err(), HasSubstr("cannot open the directory " + absent));
  }
  EXPECT_EQ(Cache({"export", absent, folder() + "/file"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr(absent));
}

TEST_F(CacheCommandTest, InspectPrintsPrefixes) {
  Fill(18);
  EXPECT_EQ(Cache({"inspect", path(), "--json"}), kExitOk);
  EXPECT_EQ(Json()["fingerprints"][0]["fingerprint"], "abababababababab");
  EXPECT_EQ(Json()["num_prefixes"], 1);
  const nlohmann::json prefix = Json()["prefixes"].at(0);
  EXPECT_EQ(prefix["tokens"], 18 * 8);
  EXPECT_EQ(prefix["longest_tokens"], 18 * 8);
  EXPECT_EQ(prefix["bytes"], 18 * 3 * kPageBytes);
  EXPECT_EQ(prefix["tenant"], "000000000000000b");
  EXPECT_TRUE(prefix["expires_in_s"].is_null());
  EXPECT_EQ(Cache({"inspect", path()}), kExitOk);
  EXPECT_THAT(Text(), HasSubstr("The 1 largest of 1 prefixes:"));
  EXPECT_THAT(Text(), HasSubstr(prefix["prefix"].get<std::string>()));
  EXPECT_EQ(Cache({"inspect", path(), "--limit", "0", "--json"}), kExitOk);
  EXPECT_TRUE(Json()["prefixes"].empty());
}

TEST_F(CacheCommandTest, VerifyNamesDamageAndFails) {
  Fill(3);
  EXPECT_EQ(Cache({"verify", path()}), kExitOk);
  EXPECT_THAT(Text(), HasSubstr("good 3, damaged 0, expired 0"));
  std::fstream file(h_.directory.Segments().at(0), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(kPageBytes + 3 * kPageBytes + 5000).put('x');
  file.close();
  EXPECT_EQ(Cache({"verify", path()}), kExitFailure);
  EXPECT_THAT(Text(), HasSubstr("damaged: abababababababab-00000001.segment: record 1: checksum"));
  EXPECT_EQ(Cache({"verify", path(), "--json"}), kExitFailure);
  EXPECT_EQ(Json()["good"], 2);
  EXPECT_EQ(Json()["damages"][0]["index"], 1);
  EXPECT_EQ(Json()["damages"][0]["segment"], "abababababababab-00000001.segment");
}

TEST_F(CacheCommandTest, ImportRefusesAFolderInUse) {
  Fill(3);
  const std::string file = folder() + "/file";
  EXPECT_EQ(Cache({"export", path(), file}), kExitOk);
  EXPECT_THAT(err(), HasSubstr("exported 3 records, 36.0 KiB"));
  TierHarness target;
  target.Start();
  EXPECT_EQ(Cache({"import", target.directory.path(), file, "--size", "256MiB"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("another process uses " + target.directory.path()));
  target.tier.reset();
  EXPECT_EQ(Cache({"import", target.directory.path(), file, "--size", "256MiB"}), kExitOk);
  EXPECT_THAT(err(), HasSubstr("imported 3 records, 36.0 KiB"));
  const std::string created = folder() + "/created";
  EXPECT_EQ(Cache({"import", created, file, "--size", "256MiB"}), kExitOk);
  EXPECT_EQ(std::filesystem::status(created).permissions(), std::filesystem::perms(0700));
  WriteFile("text", "no archive, but a text of some length");
  EXPECT_EQ(Cache({"import", created, folder() + "/text", "--size", "256MiB"}), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("was not written by `incipit cache export`"));
}

TEST_F(CacheCommandTest, AnEmptyFolderHasNothingToExport) {
  EXPECT_EQ(Cache({"export", path(), folder() + "/file"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("no segment to export"));
  EXPECT_FALSE(std::filesystem::exists(folder() + "/file"));
  EXPECT_EQ(Cache({"inspect", path()}), kExitOk);
  EXPECT_EQ(Cache({"verify", path()}), kExitOk);
}

}  // namespace
}  // namespace incipit
