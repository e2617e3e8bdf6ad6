// Declares functions for tests of the emulated matrix product library (the counterpart of
// cuBLASLt).
#pragma once

#include <cstdint>

namespace incipit::emulator {

// Makes ProductLibrary::Load() fail if `is_there` is false. By default, Load() succeeds.
void SetLibraryIsThere(bool is_there);

// Returns how many matrix products the emulated library has computed since the program started.
int64_t NumLibraryProducts();

}  // namespace incipit::emulator
