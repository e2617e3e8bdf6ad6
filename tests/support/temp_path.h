// Paths of temporary files of tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace incipit {

// Returns a path for the temporary file or folder `name`. The path is in a folder that only this
// process uses, and that is removed at the end of the process.
inline std::string TempPath(std::string_view name) {
  struct Folder {
    Folder() {
      std::string pattern = testing::TempDir() + "incipit_test_XXXXXX";
      const char* const made = mkdtemp(pattern.data());
      EXPECT_NE(made, nullptr) << pattern;
      path = pattern;
    }
    ~Folder() {
      if (getpid() != owner) return;  // a child process that a test has forked
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    const pid_t owner = getpid();
    std::filesystem::path path;
  };
  static const Folder folder;
  return folder.path / name;
}

}  // namespace incipit
