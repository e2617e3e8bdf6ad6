#include "cli/json_text.h"

#include "base/status.h"

namespace incipit {
namespace {

using nlohmann::ordered_json;

// The library destroys values recursively; nothing that people write nests deeper.
constexpr int kDepthMax = 512;

}  // namespace

std::string JsonLine(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

absl::StatusOr<ordered_json> ParseJson(std::string_view text) {
  // The library takes a NUL for the end of the input.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return InvalidArgument("not valid JSON: error at byte {}", nul + 1);
  }
  bool is_too_deep = false;
  const auto check_depth = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
    if (depth > kDepthMax) is_too_deep = true;
    return depth <= kDepthMax;
  };
  try {
    ordered_json json = ordered_json::parse(text, check_depth);
    if (is_too_deep) return InvalidArgument("JSON nests deeper than {}", kDepthMax);
    return json;
  } catch (const std::exception& error) {
    // The library's text repeats what it read, up to a whole line of it; where it stopped is
    // enough.
    const auto* const parse_error = dynamic_cast<const ordered_json::parse_error*>(&error);
    if (parse_error == nullptr) return InvalidArgument("not valid JSON");
    return InvalidArgument("not valid JSON: error at byte {}", parse_error->byte);
  }
}

}  // namespace incipit
