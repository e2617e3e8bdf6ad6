// Runs a command of the program within the test process, with temporary files, and records its
// output.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temp_path.h"

namespace incipit {

// A byte-level tokenizer with a few tokens. Token 0 is the special token "<s>", which starts each
// prompt.
inline constexpr const char* kTinyTokenizerJson = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4},
            "merges": ["a b"]}
})";

class CommandTest : public ::testing::Test {
 protected:
  CommandTest() : folder_(TempPath("command_test")) {
    std::filesystem::create_directories(folder_);
  }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  void WriteFile(const std::string& name, std::string_view content) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
  }

  // Runs `command` with `input` as stdin. Returns the exit code.
  int Run(int (*command)(std::span<const std::string_view>),
          const std::vector<std::string>& arguments, const std::string& input) {
    WriteFile("input", input);
    const int saved = dup(STDIN_FILENO);
    EXPECT_NE(std::freopen((folder_ + "/input").c_str(), "r", stdin), nullptr);
    const std::vector<std::string_view> args(arguments.begin(), arguments.end());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int exit_code = command(args);
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    dup2(saved, STDIN_FILENO);
    close(saved);
    return exit_code;
  }

  std::vector<std::string> OutLines() const {
    std::istringstream stream(out_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  const std::string& folder() const { return folder_; }
  const std::string& err() const { return err_; }

 private:
  std::string folder_, out_, err_;
};

}  // namespace incipit
