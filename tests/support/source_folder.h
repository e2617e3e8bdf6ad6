// Where tests find models and golden answers: the source tree, or what was packed of it for a
// machine that has none (INCIPIT_SOURCE).
#pragma once

#include <cstdlib>
#include <filesystem>

namespace incipit {

inline std::filesystem::path SourceFolder() {
  const char* const given = std::getenv("INCIPIT_SOURCE");
  return given != nullptr ? given : INCIPIT_SOURCE_DIR;
}

// The folder of stories260K: INCIPIT_STORIES on a machine without the source tree.
inline std::filesystem::path StoriesFolder() {
  const char* const given = std::getenv("INCIPIT_STORIES");
  return given != nullptr ? given : SourceFolder() / "tests/data/models/stories260K";
}

}  // namespace incipit
