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

// Which not everybody has.
inline std::filesystem::path StoriesFolder() {
  const char* const given = std::getenv("INCIPIT_STORIES");
  return given != nullptr ? given : SourceFolder() / "../shared/models/stories260K";
}

}  // namespace incipit
