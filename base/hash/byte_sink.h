// Types of functions that write or receive a message (byte string) in pieces. The whole message
// need not be in memory.
#pragma once

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"

namespace incipit {

// Receives a message in pieces. Is called once for each piece, in order.
using ByteSink = absl::FunctionRef<void(std::span<const uint8_t>)>;
// Writes a message: calls the ByteSink for each piece, in order.
using ByteSource = absl::FunctionRef<void(ByteSink)>;

}  // namespace incipit
