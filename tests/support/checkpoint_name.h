// Declares a function that names parameterised tests after their checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace incipit {

// Returns the checkpoint's name with '-' replaced by '_', because GoogleTest allows no '-' in a
// test name.
inline std::string NameOfCheckpoint(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace incipit
