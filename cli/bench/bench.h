// Declares the command `incipit bench`, which sends load to a server and measures latencies and
// throughput.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunBench(std::span<const std::string_view> args);

}  // namespace incipit
