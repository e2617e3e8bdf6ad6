// Types of functions that write or receive a message (byte string) in pieces. The whole message
// need not be in memory.
#pragma once

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"

namespace incipit {

// A function that receives a message in pieces. The sender calls the function once for each piece,
// in order.
using ByteSink = absl::FunctionRef<void(std::span<const uint8_t>)>;
// A function that writes a message: it calls the ByteSink for each piece, in order.
using ByteSource = absl::FunctionRef<void(ByteSink)>;

}  // namespace incipit
