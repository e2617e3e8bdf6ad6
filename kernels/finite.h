// Declares AllFinite, which searches keys and values for NaN and infinity.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/tensor.h"

namespace incipit {

// Returns true if no number in `bytes` is NaN or infinite. `bytes` contains numbers of the type
// `dtype`, without gaps, and may begin at any address. REQUIRES: the size of `bytes` is a multiple
// of ByteSize(dtype).
bool AllFinite(DType dtype, std::span<const std::byte> bytes);

}  // namespace incipit
