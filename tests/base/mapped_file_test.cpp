#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <fstream>

namespace incipit {
namespace {

std::filesystem::path WriteFile(const std::string& name, const std::string& content) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
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

TEST(MappedFileTest, MovingHandsTheMappingOver) {
  auto first = MappedFile::Open(WriteFile("mapped_file_move", "abcd"));
  ASSERT_TRUE(first.ok());
  MappedFile second = *std::move(first);
  EXPECT_EQ(second.bytes().size(), 4u);
}

}  // namespace
}  // namespace incipit
