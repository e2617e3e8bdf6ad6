// Types for messages that are written in pieces. A long message can be hashed without being
// assembled in memory.
#pragma once

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"

namespace incipit {

// A function that receives the next piece of a message.
using ByteSink = absl::FunctionRef<void(std::span<const uint8_t>)>;
// A function that writes a message to a ByteSink, from beginning to end.
using ByteSource = absl::FunctionRef<void(ByteSink)>;

}  // namespace incipit
