// What tests over checkpoints are called.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace incipit {

// The checkpoint's name, in the letters that a test's name may have.
inline std::string NameOfCheckpoint(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace incipit
