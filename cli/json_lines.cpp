#include "cli/json_lines.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/json_text.h"

namespace incipit {
namespace {

using nlohmann::ordered_json;

// Reads lines without their ends into memory of its own.
class LineReader {
 public:
  explicit LineReader(std::FILE* in) : in_(in) {}
  ~LineReader() { std::free(line_); }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Nothing at the end or on an error. The view is valid until the next call.
  std::optional<std::string_view> Next() {
    const ssize_t size = getline(&line_, &capacity_, in_);
    if (size < 0) return std::nullopt;
    std::string_view line(line_, static_cast<size_t>(size));
    if (line.ends_with('\n')) line.remove_suffix(1);
    return line;
  }

 private:
  std::FILE* in_;
  char* line_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace

absl::Status TransformJsonLines(
    std::FILE* in, std::FILE* out,
    const std::function<absl::StatusOr<ordered_json>(ordered_json)>& transform) {
  const auto answer = [&](std::string_view line) -> absl::StatusOr<ordered_json> {
    if (line.size() > kJsonLineBytesMax) {
      return InvalidArgument("the line has {} bytes; at most {} are read", line.size(),
                             kJsonLineBytesMax);
    }
    INCIPIT_ASSIGN_OR_RETURN(ordered_json value, ParseJson(line));
    return transform(std::move(value));
  };
  LineReader reader(in);
  while (const auto line = reader.Next()) {
    const auto result = answer(*line);
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
