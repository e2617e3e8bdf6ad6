// Control of the emulated device's library of matrix products, and a count of its use, for tests.
#pragma once

#include <cstdint>

namespace incipit::emulator {

// If `is_there` is false, loading the library fails. The initial value is true.
void SetLibraryIsThere(bool is_there);

// Returns the number of products that the library has computed since the start of the program.
int64_t NumLibraryProducts();

}  // namespace incipit::emulator
