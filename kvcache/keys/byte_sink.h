// Function types for messages that are written piece by piece. A long message can then be hashed
// without a copy of the whole message in memory.
#pragma once

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"

namespace incipit {

// A function that is called with each piece of a message, in order.
using ByteSink = absl::FunctionRef<void(std::span<const uint8_t>)>;
// A function that writes a whole message to a ByteSink.
using ByteSource = absl::FunctionRef<void(ByteSink)>;

}  // namespace incipit
