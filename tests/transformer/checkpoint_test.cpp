#include "transformer/checkpoint.h"

#include <filesystem>
#include <string>
#include <utility>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/transformer/safetensors_builder.h"

namespace incipit {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class CheckpointTest : public testing::Test {
 protected:
  void Write(const fs::path& name, std::string_view text) {
    WriteFile(folder_.path() / name, text);
  }
  void WriteIndex(std::string_view weight_map) {
    Write("model.safetensors.index.json",
          fmt::format(R"({{"metadata":{{"total_size":8}},"weight_map":{}}})", weight_map));
  }
  void ExpectInvalid(const testing::Matcher<std::string>& message) {
    const auto checkpoint = Checkpoint::Open(folder_.path());
    EXPECT_EQ(checkpoint.status().code(), absl::StatusCode::kInvalidArgument)
        << checkpoint.status();
    EXPECT_THAT(MessageOf(checkpoint.status()), message);
  }

  TemporaryFolder folder_;
};

TEST_F(CheckpointTest, ReadsASingleFile) {
  Write("model.safetensors", SafetensorsFile({{"a", {2}}, {"b", {1}}}));
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->tensors().size(), 2U);
}

TEST_F(CheckpointTest, ReadsShardsAndKeepsTheirBytesWhenItMoves) {
  Write("one.safetensors", SafetensorsFile({{"a", {1}, "F32", 4, "abcd"}}));
  Write("two.safetensors", SafetensorsFile({{"b", {1}, "F32", 4, "efgh"}, {"c", {1}}}));
  WriteIndex(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})");
  auto opened = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Checkpoint checkpoint = *std::move(opened);
  ASSERT_EQ(checkpoint.tensors().size(), 3U);
  EXPECT_EQ(static_cast<char>(checkpoint.tensors().at("b").bytes[3]), 'h');
}

TEST_F(CheckpointTest, ASingleFileGoesBeforeAnIndex) {
  Write("model.safetensors", SafetensorsFile({{"a", {2}}}));
  WriteIndex(R"({"b":"two.safetensors"})");
  EXPECT_TRUE(Checkpoint::Open(folder_.path()).ok());
}

TEST_F(CheckpointTest, AFolderWithoutWeightsIsNotFound) {
  Write("pytorch_model.bin", "x");
  const auto checkpoint = Checkpoint::Open(folder_.path());
  EXPECT_EQ(checkpoint.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(checkpoint.status()), HasSubstr("model.safetensors"));
}

TEST_F(CheckpointTest, ErrorsNameTheFile) {
  Write("model.safetensors", "x");
  ExpectInvalid(HasSubstr((folder_.path() / "model.safetensors").string()));
}

TEST_F(CheckpointTest, ShardNamesThatLeadElsewhereAreRefused) {
  Write("one.safetensors", SafetensorsFile({{"a", {1}}}));
  fs::create_directory(folder_.path() / "sub");
  Write("sub/one.safetensors", SafetensorsFile({{"a", {1}}}));
  const std::string absolute = (folder_.path() / "one.safetensors").string();
  for (const std::string& name :
       {std::string("../one.safetensors"), std::string("sub/one.safetensors"),
        std::string("./one.safetensors"), absolute, std::string(".."), std::string(""),
        std::string("one.safetensors\\u0000"), std::string("config.json"),
        std::string(".safetensors")}) {
    WriteIndex(fmt::format(R"({{"a":"{}"}})", name));
    ExpectInvalid(AllOf(HasSubstr("index.json"), HasSubstr("shard name")));
  }
}

TEST_F(CheckpointTest, AShardThatIsMissingIsNotFound) {
  WriteIndex(R"({"a":"one.safetensors"})");
  const auto checkpoint = Checkpoint::Open(folder_.path());
  EXPECT_EQ(checkpoint.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(checkpoint.status()), HasSubstr("one.safetensors"));
}

TEST_F(CheckpointTest, AShardThatIsALinkOutOfTheFolderIsRefused) {
  TemporaryFolder other;
  WriteFile(other.path() / "one.safetensors", SafetensorsFile({{"a", {1}}}));
  fs::create_symlink(other.path() / "one.safetensors", folder_.path() / "one.safetensors");
  WriteIndex(R"({"a":"one.safetensors"})");
  ExpectInvalid(AllOf(HasSubstr("one.safetensors is a link to"), HasSubstr("put the file itself")));
}

TEST_F(CheckpointTest, ALinkWithinTheFolderAndTheHubCacheLayoutAreRead) {
  Write("real.safetensors", SafetensorsFile({{"a", {1}}}));
  fs::create_symlink("real.safetensors", folder_.path() / "one.safetensors");
  WriteIndex(R"({"a":"one.safetensors"})");
  EXPECT_TRUE(Checkpoint::Open(folder_.path()).ok());

  const fs::path snapshot = folder_.path() / "models--x" / "snapshots" / "0123";
  const fs::path blobs = folder_.path() / "models--x" / "blobs";
  fs::create_directories(snapshot);
  fs::create_directories(blobs);
  fs::rename(folder_.path() / "real.safetensors", blobs / "cafe");
  fs::rename(folder_.path() / "model.safetensors.index.json", blobs / "f00d");
  fs::create_symlink("../../blobs/cafe", snapshot / "one.safetensors");
  fs::create_symlink("../../blobs/f00d", snapshot / "model.safetensors.index.json");
  EXPECT_TRUE(Checkpoint::Open(snapshot).ok());
}

TEST_F(CheckpointTest, AnIndexThatDisagreesWithItsShardsIsRefused) {
  Write("one.safetensors", SafetensorsFile({{"a", {1}}, {"b", {1}}}));
  Write("two.safetensors", SafetensorsFile({{"b", {1}}}));
  WriteIndex(R"({"a":"one.safetensors"})");
  ExpectInvalid(AllOf(HasSubstr("one.safetensors"), HasSubstr("\"b\"")));
  WriteIndex(R"({"a":"one.safetensors","b":"two.safetensors"})");
  ExpectInvalid(AllOf(HasSubstr("one.safetensors"), HasSubstr("\"b\"")));
  WriteIndex(R"({"a":"one.safetensors","b":"one.safetensors","c":"one.safetensors"})");
  ExpectInvalid(AllOf(HasSubstr("one.safetensors"), HasSubstr("does not contain tensor \"c\"")));
}

TEST_F(CheckpointTest, AMalformedIndexIsRefused) {
  for (const std::string_view map : {"null", "[]", "{}", R"({"a":1})", R"({"a":"x","a":"x"})"}) {
    WriteIndex(map);
    ExpectInvalid(HasSubstr("model.safetensors.index.json"));
  }
  Write("model.safetensors.index.json", "[]");
  ExpectInvalid(HasSubstr("weight_map"));
}

}  // namespace
}  // namespace incipit
