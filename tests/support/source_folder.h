// The folders in which tests find models and golden outputs. On a machine without the source tree,
// the environment variable INCIPIT_SOURCE names a folder with the packed files.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace incipit {

inline std::filesystem::path SourceFolder() {
  const char* const given = std::getenv("INCIPIT_SOURCE");
  return given != nullptr ? given : INCIPIT_SOURCE_DIR;
}

// Returns the folder of the model stories260K. On a machine without the source tree,
// INCIPIT_STORIES names this folder.
inline std::filesystem::path StoriesFolder() {
  const char* const given = std::getenv("INCIPIT_STORIES");
  return given != nullptr ? given : SourceFolder() / "tests/data/models/stories260K";
}

}  // namespace incipit
