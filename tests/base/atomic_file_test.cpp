#include "base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <iterator>
#include <string>

#include "base/mapped_file.h"
#include "base/status.h"
#include "tests/transformer/safetensors_builder.h"

namespace incipit {
namespace {

std::ptrdiff_t CountFiles(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

TEST(AtomicFileTest, AFileIsReplacedAsAWhole) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "file";
  ASSERT_TRUE(WriteFileAtomically(path, "first, and longer").ok());
  const auto reader = MappedFile::Open(path);
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(WriteFileAtomically(path, "second").ok());
  EXPECT_EQ(*ReadTextFile(path), "second");
  EXPECT_EQ(reader->bytes().size(), 17u);  // the previous file, which the reader has open
  EXPECT_EQ(CountFiles(folder.path()), 1);
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(AtomicFileTest, AnErrorLeavesNoFileBehind) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "taken";
  std::filesystem::create_directories(path / "inside");
  const absl::Status status = WriteFileAtomically(path, "text");
  EXPECT_THAT(MessageOf(status), testing::HasSubstr(path.string()));
  EXPECT_EQ(CountFiles(folder.path()), 1);
  EXPECT_FALSE(WriteFileAtomically(folder.path() / "absent" / "file", "text").ok());
}

}  // namespace
}  // namespace incipit
