// Runs filters of JSON lines: for each input line, the filter writes one output line, in order. A
// wrong line does not end the filter.
#pragma once

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "cli/command_line.h"

namespace incipit {

// Maximum number of bytes in a line. A longer line is reported as an error of that line.
inline constexpr size_t kJsonLineBytesMax = size_t{64} << 20;

// Writes one line to `out` for each line of `in`: the result of `transform`, or {"error": message}
// if the line is not JSON or `transform` returns an error. Flushes `out` after each line, so that
// another program can write a line and wait for the result. Returns INTERNAL if reading or writing
// fails.
absl::Status TransformJsonLines(
    std::FILE* in, std::FILE* out,
    const std::function<absl::StatusOr<nlohmann::ordered_json>(nlohmann::ordered_json)>& transform);

// Runs TransformJsonLines() from stdin to stdout for the command that `text` describes. If reading
// or writing fails, prints the error. Returns the exit code.
int RunJsonLines(
    const CommandText& text,
    const std::function<absl::StatusOr<nlohmann::ordered_json>(nlohmann::ordered_json)>& transform);

}  // namespace incipit
