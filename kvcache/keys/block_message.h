// The messages that are hashed to compute the keys of blocks. In the own format (not CBOR),
// different inputs always have different messages. The bytes of a message do not depend on the
// machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/types.h"
#include "kvcache/keys/byte_sink.h"
#include "kvcache/keys/extra_keys.h"

namespace incipit {

struct BlockMessage {
  // Digest of the previous block of the sequence. For the first block of a sequence: digest of the
  // root message, which contains the seed and the namespace (in CBOR only the seed).
  std::span<const uint8_t> parent;
  std::span<const TokenId> tokens;
  std::span<const ExtraKey> extras;
};

// The last 16 bytes (trailer) of each message in the own format (not CBOR). The trailer contains
// the kind of the message and the lengths of its parts, so that a message can be decoded from the
// end.
using MessageTrailer = std::array<uint8_t, 16>;

// Returns the last 16 bytes (trailer) of the message of a block with `num_tokens` tokens and no
// other inputs, such as media.
MessageTrailer PlainBlockTrailer(size_t num_tokens);

// Writes the message of a block in the own format (not CBOR), with little-endian integers:
// - the digest of the previous block;
// - the tokens (4 bytes each);
// - for each extra (an input other than tokens): its kind (1 byte), the length of its text (4
//   bytes), its offset (8 bytes) and its text;
// - the trailer: number of tokens (4 bytes), number of bytes of all extras (4 bytes) and
//   "incipitB".
void WriteBlock(const BlockMessage& message, ByteSink sink);

// Writes the root message (seed and namespace) in the own format (not CBOR):
// - for the seed, and for tenant, salt and adapter digest if present: the field number (1 byte),
//   the length of the content (8 bytes) and the content;
// - the trailer: 8 zero bytes and "incipitR".
void WriteRoot(std::string_view seed, const CacheNamespace& cache_namespace, ByteSink sink);

// Writes `message` as canonical CBOR (RFC 8949, section 4.2.1): an array of the digest of the
// previous block, the array of the token ids, and the extras. The extras are null or an array of:
// - the adapter name (a text);
// - each medium (an array of its content hash and its offset);
// - the tenant (an array of only the tenant name);
// - the salt (a text).
void WriteCborBlock(const BlockMessage& message, ByteSink sink);

// Writes the canonical CBOR of `text`.
void WriteCborText(std::string_view text, ByteSink sink);

// Returns an upper bound, in bytes, of the size of the message of a block with `num_tokens` tokens
// and no other inputs, such as media. The bound holds for both message formats, own and CBOR.
constexpr size_t PlainMessageBytesMax(size_t num_tokens) { return 64 + 5 * num_tokens; }

}  // namespace incipit
