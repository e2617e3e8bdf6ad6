// Messages that are written in pieces, so that one of any length is hashed without being assembled
// in memory.
#pragma once

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"

namespace incipit {

// Takes the next piece of a message.
using ByteSink = absl::FunctionRef<void(std::span<const uint8_t>)>;
// Writes a message, from its beginning to its end.
using ByteSource = absl::FunctionRef<void(ByteSink)>;

}  // namespace incipit
