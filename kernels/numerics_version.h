// Declares two version numbers. Keys and values that a tier stores outside the device may be used
// only by programs with the same version numbers.
#pragma once

#include <cstdint>

namespace incipit {

// Increase this number in each change after which a token gets keys or values with other bits than
// before, on any backend: another order of summation, another rounding, or another formula. The
// test KvBitsTest compares the bits with those of this version.
inline constexpr int32_t kNumericsVersion = 1;

// Increase this number in each change of the order in which a backend stores the numbers of a cache
// block. Backend::ReadBlocks copies the numbers in this order.
inline constexpr int32_t kKvLayoutVersion = 1;

}  // namespace incipit
