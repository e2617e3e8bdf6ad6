// Declares the versions that decide whether stored keys and values may still be used. A tier stores
// keys and values outside the device, also beyond the end of the process.
#pragma once

#include <cstdint>

namespace incipit {

// Increase this number in each change after which a token gets keys or values with other bits than
// before, on any backend: another order of summation, another rounding, or another formula. The
// test KvBitsTest compares the bits with those of this version.
inline constexpr int32_t kNumericsVersion = 1;

// Increase this number in each change of the order in which a backend stores the numbers of a cache
// block, and so of the bytes of Backend::ReadBlocks.
inline constexpr int32_t kKvLayoutVersion = 1;

}  // namespace incipit
