// The messages whose digests are the keys of blocks. A message can be read in one way only, so
// different inputs have different messages. The bytes of a message do not depend on the machine.
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
  std::span<const uint8_t> parent;  // digest of the previous block or of the root of the chain
  std::span<const TokenId> tokens;
  std::span<const ExtraKey> extras;
};

// The last 16 bytes of each message in the own format. The trailer names the kind of the message.
// The trailer has a fixed length, so a message can be read from the end. For blocks without extras,
// the trailer is the same for all tokens.
using MessageTrailer = std::array<uint8_t, 16>;

// Returns the trailer of a block message with `num_tokens` tokens and without extras.
MessageTrailer PlainBlockTrailer(size_t num_tokens);

// Writes the message of a block in the own format: the parent, the tokens (4 bytes each), the
// extras and the trailer. An extra consists of its kind (1 byte), the length of its text (4 bytes),
// its offset (8 bytes) and its text. The trailer consists of the number of tokens (4 bytes), the
// number of bytes of all extras (4 bytes) and "incipitB". Integers are little-endian.
void WriteBlock(const BlockMessage& message, ByteSink sink);

// Writes the message of a root in the own format: its fields and the trailer. The fields are the
// seed, and the tenant, the salt and the adapter digest if present. A field consists of its number
// (1 byte), the length of the content (8 bytes) and the content. The trailer consists of 8 zero
// bytes and "incipitR".
void WriteRoot(std::string_view seed, const CacheNamespace& cache_namespace, ByteSink sink);

// Writes the canonical CBOR (RFC 8949, section 4.2.1) of [parent, [tokens], extras]. `extras` is
// null or an array. The array contains the adapter name as text, media as [text, offset], the
// tenant as [text] and the salt as text.
void WriteCborBlock(const BlockMessage& message, ByteSink sink);

// Writes the canonical CBOR of `text`.
void WriteCborText(std::string_view text, ByteSink sink);

// Returns an upper bound of the size of a block message with `num_tokens` tokens and without
// extras, in bytes. The bound holds for both message formats.
constexpr size_t PlainMessageBytesMax(size_t num_tokens) { return 64 + 5 * num_tokens; }

}  // namespace incipit
