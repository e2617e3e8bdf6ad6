// Incipit's own implementation of SHA-256 (FIPS 180-4), because general libraries are slower for
// short messages. All functions are thread-safe and allocate no memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/hash/byte_sink.h"

namespace incipit {

using Sha256Digest = std::array<uint8_t, 32>;
// The eight words a to h of the SHA-256 state (FIPS 180-4).
using Sha256State = std::array<uint32_t, 8>;

inline constexpr size_t kSha256ChunkBytes = 64;

// An implementation of SHA-256 for one kind of CPU. Both functions (`compress` and `digest_padded`)
// read the array `chunks` of num_chunks * 64 bytes.
struct Sha256Implementation {
  std::string_view name;
  void (*compress)(Sha256State& state, const uint8_t* chunks, size_t num_chunks);
  // Writes the 32-byte digest of a message. `chunks` are the message and its padding. `digest` may
  // point into `chunks`.
  void (*digest_padded)(const uint8_t* chunks, size_t num_chunks, uint8_t* digest);
};

// Returns the implementations that this CPU can run, the fastest first. The last implementation
// always is "portable".
std::span<const Sha256Implementation> Sha256Implementations();

// The padding that SHA-256 appends to a message of `message_bytes` bytes: a one bit, zero bits, and
// the length of the message in bits.
class Sha256Padding {
 public:
  explicit Sha256Padding(uint64_t message_bytes);
  std::span<const uint8_t> bytes() const { return std::span(bytes_).first(size_); }

 private:
  std::array<uint8_t, kSha256ChunkBytes + 8> bytes_{};
  size_t size_;
};

Sha256Digest Sha256(std::span<const uint8_t> message,
                    const Sha256Implementation& implementation = Sha256Implementations().front());
// Returns the SHA-256 digest of the bytes that the function `message` writes.
Sha256Digest Sha256Of(ByteSource message,
                      const Sha256Implementation& implementation = Sha256Implementations().front());

}  // namespace incipit
