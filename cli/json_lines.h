// Reads JSON lines and writes one output line for each input line, in the same order. If an input
// line is wrong, its output line contains an error message, and the next line is processed.
#pragma once

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "cli/command_line.h"

namespace incipit {

// Maximum number of bytes in an input line. A longer line is an error.
inline constexpr size_t kJsonLineBytesMax = size_t{64} << 20;

// Writes one line to `out` for each line of `in`: the result of `transform`, or {"error": message}
// if the line is not JSON or `transform` returns an error. Flushes `out` after each line, so that
// another program can write a line and wait for the result. Returns INTERNAL if reading or writing
// fails.
absl::Status TransformJsonLines(
    std::FILE* in, std::FILE* out,
    const std::function<absl::StatusOr<nlohmann::ordered_json>(nlohmann::ordered_json)>& transform);

// Runs TransformJsonLines() with stdin as input and stdout as output. If reading or writing fails,
// prints an error message that begins with the name of the command (from `text`). Returns the exit
// code of the command.
int RunJsonLines(
    const CommandText& text,
    const std::function<absl::StatusOr<nlohmann::ordered_json>(nlohmann::ordered_json)>& transform);

}  // namespace incipit
