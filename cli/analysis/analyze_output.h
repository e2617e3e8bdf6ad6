// Formats the analysis of a log of prompts as text tables, as JSON and as SVG plots.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/analysis/analyze_result.h"

namespace incipit {

// Returns the analysis of a log of prompts as several text tables.
std::string Describe(const Analysis& analysis);

// Returns the analysis of a log of prompts as one JSON object, whose keys docs/analyze.md lists.
nlohmann::ordered_json ToJson(const Analysis& analysis);

struct Plot {
  std::string file_name;
  std::string svg;  // content of the SVG file
};
// Returns three plots: hit ratio by cache size, working set (distinct blocks used within a time
// window) over time, and number of requests by length of the shared prefix.
std::vector<Plot> DrawPlots(const Analysis& analysis);

}  // namespace incipit
