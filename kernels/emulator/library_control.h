// Functions for tests that make the emulated matrix product library unavailable, and count its
// products.
#pragma once

#include <cstdint>

namespace incipit::emulator {

// If `is_there` is false, ProductLibrary::Load() fails. Without a call, loading succeeds.
void SetLibraryIsThere(bool is_there);

// Returns the number of matrix products that the emulated library has computed since the start of
// the program.
int64_t NumLibraryProducts();

}  // namespace incipit::emulator
