// SHA-256 (FIPS 180-4). Of our own because a block's key is two compressions, and the set-up of a
// general digest call costs more than those and takes memory from the heap. Thread-safe; nothing
// allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvcache/keys/byte_sink.h"

namespace incipit {

using Sha256Digest = std::array<uint8_t, 32>;
using Sha256State = std::array<uint32_t, 8>;  // a to h

inline constexpr size_t kSha256ChunkBytes = 64;

// One way to compress. `chunks` are num_chunks times 64 bytes.
struct Sha256Implementation {
  std::string_view name;
  void (*compress)(Sha256State& state, const uint8_t* chunks, size_t num_chunks);
  // The digest (32 bytes) of a message that is padded already: see Sha256Padding. `digest` may lie
  // within `chunks`.
  void (*digest_padded)(const uint8_t* chunks, size_t num_chunks, uint8_t* digest);
};

// Those that this CPU can run, the fastest first; "portable" is always the last.
std::span<const Sha256Implementation> Sha256Implementations();

// What stands behind a message of `message_bytes`: a one bit, zeros, the length in bits.
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
// Of what `message` writes.
Sha256Digest Sha256Of(ByteSource message,
                      const Sha256Implementation& implementation = Sha256Implementations().front());

}  // namespace incipit
