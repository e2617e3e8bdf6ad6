// The bytes that the keys of blocks are digests of. Every message can be read back in one way only,
// so different inputs have different bytes. None depends on the machine.
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
  std::span<const uint8_t> parent;  // digest of the block before, or of the chain's root
  std::span<const TokenId> tokens;
  std::span<const ExtraKey> extras;
};

// The end of every message of our own. It tells the kinds of message apart and is of one length, so
// that a message is read from its end; what follows a block's tokens is known before they are.
using MessageTrailer = std::array<uint8_t, 16>;

// What a block without extras ends with.
MessageTrailer PlainBlockTrailer(size_t num_tokens);

// parent, 4 bytes for each token, for each extra (kind: 1, length: 4, offset: 8, text), trailer
// (number of tokens: 4, bytes of extras: 4, "incipitB"). Integers are little-endian.
void WriteBlock(const BlockMessage& message, ByteSink sink);

// For each of seed, tenant, salt and the adapter's digest that there is (field: 1, length: 8,
// content), trailer (zero: 8, "incipitR").
void WriteRoot(std::string_view seed, const CacheNamespace& cache_namespace, ByteSink sink);

// Canonical CBOR (RFC 8949, section 4.2.1) of [parent, [tokens], extras or null], where extras is
// an array of: adapter's name as text; media as [text, offset]; tenant as [text]; salt as text.
void WriteCborBlock(const BlockMessage& message, ByteSink sink);

// Canonical CBOR of a text.
void WriteCborText(std::string_view text, ByteSink sink);

// The longest message of a block of that many tokens without extras, in either form.
constexpr size_t PlainMessageBytesMax(size_t num_tokens) { return 64 + 5 * num_tokens; }

}  // namespace incipit
