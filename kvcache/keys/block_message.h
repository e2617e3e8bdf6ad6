// The bytes that are hashed to compute the keys of cache blocks. These bytes are CBOR, or have
// Incipit's own binary format. In Incipit's own format, blocks with different inputs always have
// different bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/hash/byte_sink.h"
#include "base/types.h"
#include "kvcache/keys/extra_keys.h"

namespace incipit {

struct BlockMessage {
  // Digest of the previous block in the sequence. For the first block in the CBOR format: digest of
  // the hash seed. For the first block in other formats: digest of the hash seed, tenant, salt and
  // adapter.
  std::span<const uint8_t> parent;
  std::span<const TokenId> tokens;
  std::span<const ExtraKey> extras;
};

// The last 16 bytes that are hashed for a block key in Incipit's own binary format (not CBOR): two
// lengths, and a text such as "incipitB".
using MessageTrailer = std::array<uint8_t, 16>;

// Returns the last 16 bytes that are hashed for the key of a block with `num_tokens` tokens and no
// other inputs, such as images.
MessageTrailer PlainBlockTrailer(size_t num_tokens);

// Writes the bytes that are hashed for the key of a block, in Incipit's own binary format. Integers
// are little-endian. The bytes are:
// - digest of the previous block, and tokens (4 bytes each);
// - for each image or other medium: kind (1 byte), length of the content hash (4 bytes), offset (8
//   bytes), content hash;
// - number of tokens (4 bytes), size of the bytes that describe media (4 bytes), and "incipitB".
void WriteBlock(const BlockMessage& message, ByteSink sink);

// Writes the hash seed, tenant, salt and adapter digest of a sequence, in Incipit's own binary
// format:
// - for each of these values that is present: field number (1 byte), length (8 bytes), and value;
// - 8 zero bytes and "incipitR".
void WriteRoot(std::string_view seed, const CacheNamespace& cache_namespace, ByteSink sink);

// Writes the bytes that are hashed for the key of a block as a canonical CBOR array (RFC 8949,
// section 4.2.1). Elements of the array: digest of the previous block, array of token ids, and
// array of other inputs (or null). Other inputs:
// - name of the adapter, and salt: texts;
// - image or other medium: array of content hash and offset;
// - tenant: array of the name.
void WriteCborBlock(const BlockMessage& message, ByteSink sink);

// Writes the canonical CBOR of `text`.
void WriteCborText(std::string_view text, ByteSink sink);

// Returns the maximum number of bytes that are hashed for the key of a block with `num_tokens`
// tokens and no other inputs, such as images. Valid for CBOR and for Incipit's own format.
constexpr size_t PlainMessageBytesMax(size_t num_tokens) { return 64 + 5 * num_tokens; }

}  // namespace incipit
