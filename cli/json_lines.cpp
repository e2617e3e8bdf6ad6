#include "cli/json_lines.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/line_reader.h"

namespace incipit {
namespace {

using nlohmann::ordered_json;

// Limits for the JSON value in an input line. The maximum number of bytes also limits the number of
// JSON values.
constexpr JsonLimits kLineLimits = {.bytes_max = kJsonLineBytesMax,
                                    .values_max = kJsonLineBytesMax,
                                    .depth_max = 512,
                                    .duplicate_keys = DuplicateKeys::kLastCounts};

}  // namespace

absl::Status TransformJsonLines(
    std::FILE* in, std::FILE* out,
    const std::function<absl::StatusOr<ordered_json>(ordered_json)>& transform) {
  const auto reply_to = [&](std::string_view line) -> absl::StatusOr<ordered_json> {
    if (line.size() > kJsonLineBytesMax) {
      return InvalidArgument("the line has {} bytes; the maximum is {}", line.size(),
                             kJsonLineBytesMax);
    }
    INCIPIT_ASSIGN_OR_RETURN(ordered_json value, ParseJson<ordered_json>(line, kLineLimits));
    return transform(std::move(value));
  };
  LineReader reader(in);
  while (const auto line = reader.Next()) {
    const auto result = reply_to(*line);
    const std::string text =
        JsonLine(result.ok() ? *result : ordered_json{{"error", MessageOf(result.status())}});
    if (std::fwrite(text.data(), 1, text.size(), out) != text.size() || std::fflush(out) != 0) {
      return Internal("cannot write: {}", std::strerror(errno));
    }
  }
  if (std::ferror(in) != 0) return Internal("cannot read: {}", std::strerror(errno));
  return absl::OkStatus();
}

int RunJsonLines(const CommandText& text,
                 const std::function<absl::StatusOr<ordered_json>(ordered_json)>& transform) {
  const absl::Status status = TransformJsonLines(stdin, stdout, transform);
  return status.ok() ? kExitOk : ReportFailure(text, MessageOf(status));
}

}  // namespace incipit
