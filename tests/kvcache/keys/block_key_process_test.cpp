// Tests that two processes compute equal block keys. Keys outlive their process: on disk, in other
// replicas and in a router.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/kvcache/keys/key_vectors_text.h"

namespace incipit {
namespace {

// Returns the output of print_block_keys. `setting` is the part of the shell command before the
// program: for example, a change of folder and environment variables.
std::string Printed(const std::string& setting) {
  const std::string command = setting + " '" INCIPIT_PRINT_BLOCK_KEYS "'";
  FILE* const pipe = popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string text;
  char piece[4096];
  for (size_t size; (size = fread(piece, 1, sizeof(piece), pipe)) > 0;) text.append(piece, size);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

TEST(BlockKeyProcessTest, TwoProcessesGiveTheSameKeys) {
  const std::string first = Printed("cd / && env -i LC_ALL=C PYTHONHASHSEED=1 TZ=UTC");
  const std::string second =
      Printed("cd /tmp && LC_ALL=tr_TR.UTF-8 PYTHONHASHSEED=2 MALLOC_PERTURB_=165 HOME=/");
  EXPECT_GT(first.size(), 5000u);
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, ChainsAsText());
}

}  // namespace
}  // namespace incipit
