// The library of products that the emulated device has, as tests want to know and to have it.
#pragma once

#include <cstdint>

namespace incipit::emulator {

// False: it cannot be loaded. True at the start.
void SetLibraryIsThere(bool is_there);

// Products that the library has computed since the program began.
int64_t NumLibraryProducts();

}  // namespace incipit::emulator
