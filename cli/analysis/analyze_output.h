// The three forms of an analysis: for people, for programs, and to look at.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/analysis/analyze_result.h"

namespace incipit {

// Several tables.
std::string Describe(const Analysis& analysis);

// One object; docs/analyze.md lists its keys.
nlohmann::ordered_json ToJson(const Analysis& analysis);

struct Plot {
  std::string file_name;
  std::string svg;  // the whole file
};
// Hit ratio against cache size, working set against time, requests by length of shared prefix.
std::vector<Plot> DrawPlots(const Analysis& analysis);

}  // namespace incipit
