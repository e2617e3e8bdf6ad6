// Declares functions with which tests control the emulated matrix product library, which replaces
// cuBLASLt.
#pragma once

#include <cstdint>

namespace incipit::emulator {

// Sets whether the emulated matrix product library can be loaded. The default is true.
void SetLibraryIsThere(bool is_there);

// Returns how many matrix products the emulated library has computed since the program started.
int64_t NumLibraryProducts();

}  // namespace incipit::emulator
