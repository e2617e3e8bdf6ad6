#include "server/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "base/status.h"
#include "server/engine_options.h"
#include "server/net/address.h"
#include "tests/support/temp_path.h"

namespace incipit {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  Options options;
  Flags flags;
  absl::Status status;
};

std::unique_ptr<Parsed> Parse(const std::vector<std::string>& args) {
  auto parsed = std::make_unique<Parsed>();
  const std::vector<std::string_view> views(args.begin(), args.end());
  parsed->status = ParseOptions(views, parsed->options, parsed->flags);
  return parsed;
}

std::string WriteConfig(const std::string& text) {
  const std::string path = TempPath("config.yaml");
  std::ofstream(path) << text;
  return path;
}

TEST(OptionsTest, BothSpellingsOfAFlagAreTaken) {
  const auto parsed = Parse({"--model", "m", "--step-tokens=64", "--prefix-cache=off",
                             "--write-stall-timeout", "500ms", "--kv-memory=2GiB"});
  ASSERT_TRUE(parsed->status.ok()) << parsed->status;
  EXPECT_EQ(parsed->options.step_tokens, 64);
  EXPECT_FALSE(parsed->options.prefix_cache);
  EXPECT_EQ(parsed->options.write_stall_timeout, std::chrono::milliseconds(500));
  EXPECT_EQ(parsed->options.kv_memory, int64_t{2} << 30);
}

TEST(OptionsTest, PrewarmingNeedsThePrefixCache) {
  EXPECT_TRUE(Parse({"--model=m", "--prewarm=prompts.jsonl"})->status.ok());
  const auto off = Parse({"--model=m", "--prewarm=prompts.jsonl", "--prefix-cache=off"});
  EXPECT_THAT(MessageOf(off->status),
              AllOf(HasSubstr("--prewarm"), HasSubstr("--prefix-cache on")));
}

TEST(OptionsTest, TheTenantsWithTheLargestWeightsAreReported) {
  EXPECT_TRUE(ReportedTenants(Parse({"--model=m"})->options).empty());
  const auto few = Parse({"--model=m", "--tenant-weights=b=1,other=9,c=2.5,a=1"});
  ASSERT_TRUE(few->status.ok()) << few->status;
  EXPECT_THAT(ReportedTenants(few->options), ElementsAre("c", "a", "b"));
  EXPECT_THAT(SchedulerOptionsOf(few->options).shares.reported,
              ElementsAre(TenantDigest("c"), TenantDigest("a"), TenantDigest("b")));
  std::string weights;
  for (int i = 1; i <= 25; ++i) weights += "t" + std::to_string(i) + "=" + std::to_string(i) + ",";
  const auto many = Parse({"--model=m", "--tenant-weights=" + weights});
  ASSERT_TRUE(many->status.ok()) << many->status;
  const std::vector<std::string> reported = ReportedTenants(many->options);
  ASSERT_EQ(reported.size(), kReportedTenantsMax);
  EXPECT_EQ(reported.front(), "t25");
  EXPECT_EQ(reported.back(), "t6");
}

TEST(OptionsTest, AutoIsAValueOfItsOwn) {
  const auto parsed = Parse({"--model=m", "--step-tokens=auto", "--max-model-len=auto"});
  ASSERT_TRUE(parsed->status.ok()) << parsed->status;
  EXPECT_FALSE(parsed->options.step_tokens.has_value());
  EXPECT_FALSE(parsed->options.max_model_len.has_value());
}

TEST(OptionsTest, AnHttpAddressOfTheFlagIsRequiredAndTheDefaultIsNot) {
  const auto by_default = Parse({"--model=m"});
  EXPECT_TRUE(by_default->options.http_address.is_on);
  EXPECT_FALSE(by_default->options.http_address.is_required);
  EXPECT_EQ(by_default->options.http_address.address.port, 8000);
  const auto none = Parse({"--model=m", "--http-address=none"});
  ASSERT_TRUE(none->status.ok()) << none->status;
  EXPECT_FALSE(none->options.http_address.is_on);
  // If --http-address is given, the server must open the address, even if the address is the
  // default.
  const auto given = Parse({"--model=m", "--http-address=127.0.0.1:8000", "--http-hosts=a",
                            "--http-hosts=b", "--http-origins=https://app.example"});
  ASSERT_TRUE(given->status.ok()) << given->status;
  EXPECT_TRUE(given->options.http_address.is_on && given->options.http_address.is_required);
  EXPECT_EQ(given->options.http_hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(given->options.http_origins, (std::vector<std::string>{"https://app.example"}));
  for (const std::string value : {"nowhere", "127.0.0.1", "127.0.0.1:65536", ""}) {
    const auto wrong = Parse({"--model=m", "--http-address=" + value});
    EXPECT_THAT(std::string(wrong->status.message()), HasSubstr("--http-address")) << value;
  }
}

struct WrongFlag {
  std::vector<std::string> args;
  std::string names;  // text that the error message must contain
};

TEST(OptionsTest, AWrongValueNamesItself) {
  const WrongFlag cases[] = {
      {{}, "--model"},
      {{"--model=m", "--step-tokens=0"}, "--step-tokens is \"0\""},
      {{"--model=m", "--step-tokens=1e3"}, "--step-tokens"},
      {{"--model=m", "--steps-in-flight=3"}, "auto or a whole number from 1 to 2"},
      {{"--model=m", "--block-size=24"}, "--block-size is 24"},
      {{"--model=m", "--block-size=512"}, "--block-size"},
      {{"--model=m", "--kv-dtype=f8"}, "--kv-dtype"},
      {{"--model=m", "--kv-blocks=8", "--kv-memory=1GiB"}, "--kv-blocks and --kv-memory"},
      {{"--model=m", "--address=localhost"}, "--address \"localhost\" is not an address"},
      {{"--model=m", "--address=:80"}, "--address"},
      {{"--model=m", "--address=a:65536"}, "--address"},
      {{"--model=m", "--address=::1:80"}, "--address"},
      {{"--model=m", "--metrics-address=127.0.0.1:50051"}, "--metrics-address"},
      {{"--model=m", "--admin-address=127.0.0.1:50051"}, "--admin-address"},
      {{"--model=m", "--message-bytes-max=129MiB"}, "--text-queue-bytes-max"},
      {{"--model=m", "--priority-range=5"}, "--priority-range"},
      {{"--model=m", "--priority-range=5,1"}, "--priority-range"},
      {{"--model=m", "--log-level=loud"}, "--log-level"},
      {{"--model=m", "--prefix-cache=maybe"}, "--prefix-cache"},
      {{"--model=m", "--drain-timeout=-1s"}, "--drain-timeout"},
      {{"--model=m", "--prefix-cache-policy=fifo"}, "--prefix-cache-policy"},
      {{"--model=m", "--copy-on-write=some"}, "--copy-on-write"},
      {{"--model=m", "--cache-retention-share-max=1.5"}, "--cache-retention-share-max"},
      {{"--model=m", "--gpu-memory-fraction=0"}, "--gpu-memory-fraction"},
      {{"--model=m", "--gpu-memory-fraction=1"}, "--gpu-memory-fraction"},
      {{"--model=m", "--gpu-large-products=library"}, "--gpu-large-products"},
      {{"--model=m", "--cache-retention-share-max=-0.1"}, "--cache-retention-share-max"},
      {{"--model=m", "--cache-retention-share-max=nan"}, "--cache-retention-share-max"},
      {{"--model=m", "--cache-retention-max-s=0"}, "--cache-retention-max-s"},
      {{"--model=m", "--cache-retention-max-s=1h"}, "--cache-retention-max-s"},
      {{"--model=m", "--cache-ttl-max=0"}, "--cache-ttl-max"},
      {{"--model=m", "--modle=x"}, "did you mean --model"},
      {{"--model=m", "stray"}, "stray"},
      {{"--model=m", "--config=/nonexistent/x.yaml"}, "/nonexistent/x.yaml"},
  };
  for (const WrongFlag& wrong : cases) {
    const auto parsed = Parse(wrong.args);
    EXPECT_FALSE(parsed->status.ok()) << wrong.names;
    EXPECT_THAT(MessageOf(parsed->status), HasSubstr(wrong.names));
    EXPECT_EQ(MessageOf(parsed->status).find('\n'), std::string::npos);
  }
}

TEST(OptionsTest, WhatTheFlagsSayOfTheCacheReachesIt) {
  const std::string path = WriteConfig(
      "model: m\ncopy-on-write: off\ncache-retention-share-max: 0.5\n"
      "cache-retention-max-s: 30\ncache-ttl-max: 2h\n");
  const auto parsed = Parse({"--config", path, "--block-size=32", "--prefix-cache-seed=x"});
  ASSERT_TRUE(parsed->status.ok()) << parsed->status;
  const KvCacheOptions cache = CacheOptionsOf(parsed->options);
  EXPECT_TRUE(cache.prefix_cache);
  EXPECT_FALSE(cache.copy_on_write);
  EXPECT_EQ(cache.block_size, 32);
  EXPECT_EQ(cache.seed, "x");
  EXPECT_EQ(cache.retention.tenant_share_max, 0.5);
  EXPECT_EQ(cache.retention.duration_max, std::chrono::seconds(30));
  EXPECT_EQ(parsed->options.request.cache_ttl_max, std::chrono::hours(2));
}

TEST(OptionsTest, WithADiskCacheTheKeysAreSha256Digests) {
  const std::pair<HashAlgorithm, HashAlgorithm> cases[] = {
      {HashAlgorithm::kSha256, HashAlgorithm::kSha256},
      {HashAlgorithm::kXxh3, HashAlgorithm::kSha256},
      {HashAlgorithm::kSha256Cbor, HashAlgorithm::kSha256Cbor},
      {HashAlgorithm::kXxh3Cbor, HashAlgorithm::kSha256Cbor}};
  for (const auto& [chosen, with_disk_cache] : cases) {
    const std::string hash = "--prefix-cache-hash=" + std::string(NameOf(chosen));
    const auto without = Parse({"--model=m", hash});
    ASSERT_TRUE(without->status.ok()) << without->status;
    EXPECT_EQ(CacheOptionsOf(without->options).hash, chosen);
    const auto with = Parse({"--model=m", hash, "--disk-cache=d", "--disk-cache-size=1GiB"});
    ASSERT_TRUE(with->status.ok()) << with->status;
    EXPECT_EQ(CacheOptionsOf(with->options).hash, with_disk_cache);
  }
}

TEST(OptionsTest, EveryEvictionPolicyHasItsName) {
  for (const EvictionPolicyKind kind :
       {EvictionPolicyKind::kLru, EvictionPolicyKind::kLfuAging, EvictionPolicyKind::kLru2,
        EvictionPolicyKind::kArc, EvictionPolicyKind::kS3Fifo, EvictionPolicyKind::kAdaptive}) {
    const auto parsed = Parse({"--model=m", "--prefix-cache-policy=" + std::string(NameOf(kind))});
    ASSERT_TRUE(parsed->status.ok()) << parsed->status;
    EXPECT_EQ(CacheOptionsOf(parsed->options).policy, kind);
  }
}

TEST(OptionsTest, TheDefaultsOfTheCacheAreItsOwn) {
  const KvCacheOptions cache = CacheOptionsOf({}), own;
  EXPECT_EQ(cache.block_size, own.block_size);
  EXPECT_EQ(cache.hash, own.hash);
  EXPECT_EQ(cache.seed, own.seed);
  EXPECT_EQ(cache.prefix_cache, own.prefix_cache);
  EXPECT_EQ(cache.copy_on_write, own.copy_on_write);
  EXPECT_EQ(cache.policy, own.policy);
  EXPECT_EQ(cache.retention.tenant_share_max, own.retention.tenant_share_max);
  EXPECT_EQ(cache.retention.duration_max, own.retention.duration_max);
}

TEST(OptionsTest, AFlagWinsOverTheFile) {
  const std::string path =
      WriteConfig("model: from-file\nstep-tokens: 32\nprefix-cache: off\nport-file: p\n");
  const auto parsed = Parse({"--config", path, "--step-tokens=64"});
  ASSERT_TRUE(parsed->status.ok()) << parsed->status;
  EXPECT_EQ(parsed->options.model, "from-file");
  EXPECT_EQ(parsed->options.step_tokens, 64);
  EXPECT_FALSE(parsed->options.prefix_cache);
  EXPECT_EQ(parsed->options.config, path);
}

TEST(OptionsTest, AWrongLineOfTheFileNamesItself) {
  const std::pair<std::string, std::string> cases[] = {
      {"model: m\nmax_model_len: 5\n", ":2: unknown flag --max_model_len"},
      {"model: m\nstep-tokens: [1, 2]\n", ":2: step-tokens must be a single value"},
      {"model: m\nmodel: n\n", ":2: model is given twice"},
      {"model: m\nrunning-max: many\n", ":2: --running-max is \"many\""},
      {"- model\n", "must be a mapping"},
      {"model: m\nconfig: other.yaml\n", ":2: the key config is not allowed"},
      {"model: [m\n", ":2:"},
      {"? [a, b]\n: c\n", ":1"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string path = WriteConfig(text);
    // An error in a line of the file is reported even if a flag overrides the setting.
    const auto parsed = Parse({"--config", path, "--running-max=3"});
    EXPECT_FALSE(parsed->status.ok()) << text;
    EXPECT_THAT(MessageOf(parsed->status), AllOf(HasSubstr(path), HasSubstr(expected)));
  }
}

TEST(OptionsTest, AFolderIsNoConfigFile) {
  const std::string folder = testing::TempDir();
  const auto parsed = Parse({"--config", folder, "--model=m"});
  EXPECT_FALSE(parsed->status.ok());
  EXPECT_THAT(MessageOf(parsed->status), AllOf(HasSubstr("--config"), HasSubstr(folder)));
}

TEST(OptionsTest, AnEmptyFileChangesNothing) {
  const std::string path = WriteConfig("# nothing\n");
  EXPECT_TRUE(Parse({"--config", path, "--model=m"})->status.ok());
}

TEST(OptionsTest, EveryFlagTakesItsOwnShownValue) {
  const auto parsed = Parse({"--model=m"});
  ASSERT_TRUE(parsed->status.ok());
  Options again;
  Flags flags;
  BindOptions(again, flags);
  for (const auto& [name, value] : parsed->flags.Values()) {
    const absl::Status status = flags.Set(name, value);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(flags.Values(), parsed->flags.Values());
}

TEST(OptionsTest, AFlagThatNamesAFileOrAFolderIsPrivate) {
  Options options;
  Flags flags;
  BindOptions(options, flags);
  std::set<std::string> shown;
  for (const auto& [name, value] : flags.PublicValues()) shown.insert(name);
  std::istringstream help(flags.Help());
  int num_paths = 0;
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  --")) continue;
    const std::string value = line.substr(std::min(line.find(' ', 4), line.size()));
    if (value.find("DIR") == value.npos && value.find("FILE") == value.npos) continue;
    ++num_paths;
    EXPECT_FALSE(shown.contains(line.substr(4, line.find(' ', 4) - 4))) << line;
  }
  EXPECT_GE(num_paths, 5);
  EXPECT_FALSE(shown.contains("prefix-cache-seed"));
  EXPECT_TRUE(shown.contains("address"));
}

// Maps "group --flag VALUE" to the description of the flag.
using FlagTexts = std::map<std::string, std::string>;

FlagTexts FlagsOfTheHelp() {
  Options options;
  Flags flags;
  BindOptions(options, flags);
  std::istringstream help(flags.Help());
  FlagTexts texts;
  std::string group, flag;
  for (std::string line; std::getline(help, line);) {
    if (line.empty()) continue;
    if (line.starts_with("  --")) {
      flag = line.substr(2);
      // The help names no value for an on/off flag.
      if (flag.find(' ') == std::string::npos) flag += " on|off";
    } else if (line.starts_with(" ")) {
      std::string& text = texts[group + " " + flag];
      text += (text.empty() ? "" : " ") + line.substr(line.find_first_not_of(' '));
    } else {
      group = line.substr(0, line.size() - 1);
    }
  }
  return texts;
}

FlagTexts FlagsOfTheGuide() {
  std::ifstream file(INCIPIT_SOURCE_DIR "/docs/operations.md");
  const std::regex row(R"(\| `(--[a-z-]+)` \| ((?:[^|]|\\\|)*) \| ((?:[^|]|\\\|)*) \|)");
  FlagTexts texts;
  std::string group;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (line.starts_with("### ")) group = line.substr(4);
    if (!std::regex_match(line, match, row)) continue;
    const std::string value = std::regex_replace(match[2].str(), std::regex(R"(\\\|)"), "|");
    texts[group + " " + match[1].str() + " " + value] = match[3];
  }
  return texts;
}

TEST(OptionsTest, TheOperationsGuideSaysOfEveryFlagWhatTheHelpSays) {
  const FlagTexts help = FlagsOfTheHelp();
  EXPECT_GT(help.size(), 40u);
  EXPECT_EQ(FlagsOfTheGuide(), help);
}

TEST(OptionsTest, HelpNeedsNoModel) {
  const auto parsed = Parse({"--help"});
  EXPECT_TRUE(parsed->status.ok()) << parsed->status;
  EXPECT_TRUE(parsed->flags.help_requested());
}

TEST(AddressTest, APortInUseIsNamed) {
  EXPECT_TRUE(CheckAddressFree("address", {"127.0.0.1", 0}).ok());
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_storage storage{};
  auto* const bound = reinterpret_cast<sockaddr*>(&storage);
  bound->sa_family = AF_INET;
  socklen_t size = sizeof(storage);
  ASSERT_EQ(bind(fd, bound, size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, bound, &size), 0);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(bound->sa_data);
  const HostPort address{"0.0.0.0", static_cast<uint16_t>(bytes[0] << 8 | bytes[1])};
  const absl::Status status = CheckAddressFree("address", address);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("--address " + ToString(address)), HasSubstr("in use")));
  close(fd);
}

}  // namespace
}  // namespace incipit
