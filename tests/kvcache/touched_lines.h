// Records which cache lines of the processor the code of the KV cache reads and writes. The test
// compiles the cache's sources again with ThreadSanitizer's instrumentation, without its runtime.
// The compiler then calls a function of touched_lines.cpp at each load and store. The recording is
// therefore complete, and the product's sources stay unchanged. A prefetch does not count as a
// load.
#pragma once

#include <cstdint>
#include <vector>

namespace incipit {

// Starts recording touched cache lines. Not thread-safe.
void BeginTouching();

// Stops recording. Returns the address / 64 of each cache line that was touched, sorted and without
// duplicates.
std::vector<uintptr_t> EndTouching();

}  // namespace incipit
