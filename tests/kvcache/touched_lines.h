// Which cache lines the cache's code reads and writes. Its sources are compiled once more for this,
// with the option that makes the compiler call what touched_lines.cpp defines at each load and
// store (ThreadSanitizer's instrumentation without its runtime), so nothing is missed and nothing
// in the product knows of it. A prefetch is not a load.
#pragma once

#include <cstdint>
#include <vector>

namespace incipit {

// The addresses / 64 of the lines touched since BeginTouching, sorted, each once. One thread.
void BeginTouching();
std::vector<uintptr_t> EndTouching();

}  // namespace incipit
