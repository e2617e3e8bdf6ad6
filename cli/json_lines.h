// A filter of JSON lines: one value in, one value out, in order, and a bad line stops nothing.
#pragma once

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "cli/command_line.h"

namespace incipit {

// A longer line is an error of that line.
inline constexpr size_t kJsonLineBytesMax = size_t{64} << 20;

// Answers each line of `in` with one line on `out`: what `transform` returns, or {"error": message}
// if the line is no JSON or `transform` refuses it. Flushes after each line, so that a program may
// write a line and wait for its answer. INTERNAL if reading or writing fails.
absl::Status TransformJsonLines(
    std::FILE* in, std::FILE* out,
    const std::function<absl::StatusOr<nlohmann::ordered_json>(nlohmann::ordered_json)>& transform);

// The same as a command does it, from stdin to stdout; returns the exit code.
int RunJsonLines(
    const CommandText& text,
    const std::function<absl::StatusOr<nlohmann::ordered_json>(nlohmann::ordered_json)>& transform);

}  // namespace incipit
