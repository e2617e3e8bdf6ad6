#include "base/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>

#include "tests/support/temp_path.h"

namespace incipit {
namespace {

std::filesystem::path WriteFile(const std::string& name, const std::string& content) {
  const std::filesystem::path path = TempPath(name);
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(MappedFileTest, HoldsTheBytesOfTheFile) {
  const auto file = MappedFile::Open(WriteFile("mapped_file_test", "abc"));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->bytes().size(), 3u);
  EXPECT_EQ(static_cast<char>(file->bytes()[1]), 'b');
}

TEST(MappedFileTest, AnEmptyFileHasNoBytes) {
  const auto file = MappedFile::Open(WriteFile("mapped_file_empty", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFileTest, WhatCannotBeMappedIsNamed) {
  const auto missing = MappedFile::Open("/nonexistent/model.safetensors");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().ToString().find("/nonexistent/model.safetensors"), std::string::npos);
  const auto directory = MappedFile::Open(testing::TempDir());
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(MappedFileTest, AFifoIsRefusedWithoutWaitingForAWriter) {
  const std::string path = TempPath("mapped_file_fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  auto status = std::async(std::launch::async, [&] { return MappedFile::Open(path).status(); });
  const bool has_returned = status.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  // Opens the pipe for writing, so that MappedFile::Open stops waiting.
  if (!has_returned) close(::open(path.c_str(), O_WRONLY));
  EXPECT_TRUE(has_returned);
  EXPECT_EQ(status.get().code(), absl::StatusCode::kFailedPrecondition);
  unlink(path.c_str());
}

TEST(ReadTextFileTest, AMissingFileIsNoError) {
  EXPECT_EQ(*ReadTextFileIfExists(WriteFile("text_file_test", "abc")), "abc");
  EXPECT_EQ(*ReadTextFileIfExists("/nonexistent/text"), std::nullopt);
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadTextFileIfExists(testing::TempDir()).status()));
}

TEST(ReadTextInputTest, ReadsAFileUpToItsMaximum) {
  const std::filesystem::path path = WriteFile("text_input_test", std::string(100'000, 'a'));
  EXPECT_EQ(ReadTextInput(path, 100'000)->size(), 100'000u);
  const absl::Status longer = ReadTextInput(path, 99'999).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(longer));
  EXPECT_NE(longer.message().find("more than 99999 bytes"), std::string::npos) << longer;
}

TEST(ReadTextInputTest, ReadsAFifoUntilItsWriterClosesIt) {
  const std::string path = TempPath("text_input_fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  auto text = std::async(std::launch::async, [&] { return ReadTextInput(path, 8); });
  std::ofstream(path) << "abc" << std::flush << "def";
  EXPECT_EQ(*text.get(), "abcdef");
  unlink(path.c_str());
}

TEST(ReadTextInputTest, WhatCannotBeReadIsNamed) {
  EXPECT_TRUE(absl::IsNotFound(ReadTextInput("/nonexistent/text", 8).status()));
  const absl::Status folder = ReadTextInput(testing::TempDir(), 8).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(folder));
  EXPECT_NE(folder.message().find(testing::TempDir()), std::string::npos) << folder;
}

TEST(MappedFileTest, MovingHandsTheMappingOver) {
  auto first = MappedFile::Open(WriteFile("mapped_file_move", "abcd"));
  ASSERT_TRUE(first.ok());
  MappedFile second = *std::move(first);
  EXPECT_EQ(second.bytes().size(), 4u);
}

}  // namespace
}  // namespace incipit
