// The file in which the disk tier keeps the uses of its chunks between two runs of a server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvcache/tiers/chunk.h"

namespace incipit {

// The file of a fingerprint has the name FingerprintName and kUsesSuffix.
inline constexpr char kUsesSuffix[] = ".uses";

// The uses of one chunk.
struct ChunkUses {
  uint64_t key = 0;       // first 8 bytes of the key
  uint32_t hits = 0;      // number of loads since the chunk was stored
  uint32_t last_use = 0;  // number of the newest segment at the last use; see ChunkIndex

  friend bool operator==(const ChunkUses&, const ChunkUses&) = default;
};
static_assert(sizeof(ChunkUses) == 16);

// Maximum number of chunks in the file. The uses of more chunks are lost at the end of the server,
// those of the least recently used chunks first.
inline constexpr size_t kChunkUsesMax = size_t{1} << 20;
// Maximum size of the file in bytes.
inline constexpr size_t kUsesBytesMax = 128 + kChunkUsesMax * sizeof(ChunkUses);

std::string UsesName(const Fingerprint& fingerprint);
// Returns the contents of the file. REQUIRES: `uses` has at most kChunkUsesMax elements.
std::string EncodeUses(const Fingerprint& fingerprint, std::span<const ChunkUses> uses);
// Returns the uses in the order of EncodeUses. Returns std::nullopt if the file is damaged or has
// another fingerprint. `contents` may be any bytes.
std::optional<std::vector<ChunkUses>> DecodeUses(const Fingerprint& fingerprint,
                                                 std::string_view contents);

}  // namespace incipit
