#include "kvcache/keys/block_message.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace incipit {
namespace {

constexpr uint32_t kUint32Max = std::numeric_limits<uint32_t>::max();

enum class MessageKind : char { kBlock = 'B', kRoot = 'R' };
// Numbers that identify the hash seed, tenant, salt and adapter in the bytes that WriteRoot()
// writes.
enum class RootField : uint8_t { kSeed = 1, kTenant = 2, kSalt = 3, kAdapter = 4 };
// Major types of CBOR data items (RFC 8949, section 3.1).
enum class Major : uint8_t { kUnsigned = 0, kNegative = 1, kBytes = 2, kText = 3, kArray = 4 };
constexpr uint8_t kCborNull = 0xf6;

// Appends integers to a buffer of kBytesMax bytes.
template <size_t kBytesMax>
class SmallBuffer {
 public:
  void Byte(uint8_t byte) { bytes_[size_++] = byte; }
  void LittleEndian(uint64_t value, int num_bytes) {
    for (int i = 0; i < num_bytes; ++i) Byte(static_cast<uint8_t>(value >> (8 * i)));
  }
  // Appends the first bytes of a CBOR data item: the type `major` and the integer `value`, in as
  // few bytes as possible.
  void CborHead(Major major, uint64_t value) {
    const auto type = static_cast<uint8_t>(static_cast<uint8_t>(major) << 5);
    if (value < 24) return Byte(static_cast<uint8_t>(type | value));
    const int log_bytes = value <= 0xff ? 0 : value <= 0xffff ? 1 : value <= kUint32Max ? 2 : 3;
    Byte(static_cast<uint8_t>(type | (24 + log_bytes)));
    const size_t num_bytes = size_t{1} << log_bytes;
    value <<= 64 - 8 * num_bytes;
    if constexpr (std::endian::native == std::endian::little) value = __builtin_bswap64(value);
    // Always copy 8 bytes, because a memcpy of constant size is faster.
    std::memcpy(&bytes_[size_], &value, sizeof(value));
    size_ += num_bytes;
  }
  void CborInteger(int64_t value) {
    // CBOR stores a negative `value` as -1 - value, which is ~value.
    if (value < 0) return CborHead(Major::kNegative, ~static_cast<uint64_t>(value));
    CborHead(Major::kUnsigned, static_cast<uint64_t>(value));
  }
  std::span<const uint8_t> bytes() const { return std::span(bytes_).first(size_); }

 private:
  std::array<uint8_t, kBytesMax + sizeof(uint64_t)> bytes_;
  size_t size_ = 0;
};

std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

MessageTrailer MakeTrailer(uint64_t first, uint64_t second, MessageKind kind) {
  SmallBuffer<sizeof(MessageTrailer)> buffer;
  buffer.LittleEndian(first, 4);
  buffer.LittleEndian(second, 4);
  for (const char letter : {'i', 'n', 'c', 'i', 'p', 'i', 't', static_cast<char>(kind)}) {
    buffer.Byte(static_cast<uint8_t>(letter));
  }
  MessageTrailer trailer;
  std::ranges::copy(buffer.bytes(), trailer.begin());
  return trailer;
}

void WriteRootField(RootField field, std::span<const uint8_t> content, ByteSink sink) {
  SmallBuffer<9> head;
  head.Byte(static_cast<uint8_t>(field));
  head.LittleEndian(content.size(), 8);
  sink(head.bytes());
  sink(content);
}

// Writes one input of a block key that is not a token, such as the name of the tenant. Returns the
// number of bytes written.
uint64_t WriteExtra(const ExtraKey& extra, ByteSink sink) {
  INCIPIT_CHECK(extra.text.size() <= kUint32Max);
  SmallBuffer<13> head;
  head.Byte(static_cast<uint8_t>(extra.kind));
  head.LittleEndian(extra.text.size(), 4);
  head.LittleEndian(static_cast<uint64_t>(extra.offset), 8);
  sink(head.bytes());
  sink(BytesOf(extra.text));
  return head.bytes().size() + extra.text.size();
}

void WriteCborExtra(const ExtraKey& extra, ByteSink sink) {
  SmallBuffer<1> head;
  if (extra.kind == ExtraKind::kMedia) head.CborHead(Major::kArray, 2);
  if (extra.kind == ExtraKind::kTenant) head.CborHead(Major::kArray, 1);
  sink(head.bytes());
  WriteCborText(extra.text, sink);
  if (extra.kind != ExtraKind::kMedia) return;
  SmallBuffer<9> offset;
  offset.CborInteger(extra.offset);
  sink(offset.bytes());
}

}  // namespace

MessageTrailer PlainBlockTrailer(size_t num_tokens) {
  return MakeTrailer(num_tokens, 0, MessageKind::kBlock);
}

void WriteBlock(const BlockMessage& message, ByteSink sink) {
  INCIPIT_CHECK(message.tokens.size() <= kBlockSizeMax);
  sink(message.parent);
  SmallBuffer<4 * kBlockSizeMax> tokens;
  for (const TokenId token : message.tokens) tokens.LittleEndian(static_cast<uint32_t>(token), 4);
  sink(tokens.bytes());
  uint64_t num_extra_bytes = 0;
  for (const ExtraKey& extra : message.extras) num_extra_bytes += WriteExtra(extra, sink);
  INCIPIT_CHECK(num_extra_bytes <= kUint32Max);
  sink(MakeTrailer(message.tokens.size(), num_extra_bytes, MessageKind::kBlock));
}

void WriteRoot(std::string_view seed, const CacheNamespace& cache_namespace, ByteSink sink) {
  WriteRootField(RootField::kSeed, BytesOf(seed), sink);
  if (cache_namespace.tenant) {
    WriteRootField(RootField::kTenant, BytesOf(*cache_namespace.tenant), sink);
  }
  if (!cache_namespace.salt.empty()) {
    WriteRootField(RootField::kSalt, BytesOf(cache_namespace.salt), sink);
  }
  if (cache_namespace.adapter) {
    WriteRootField(RootField::kAdapter, cache_namespace.adapter->digest, sink);
  }
  sink(MakeTrailer(0, 0, MessageKind::kRoot));
}

void WriteCborBlock(const BlockMessage& message, ByteSink sink) {
  INCIPIT_CHECK(message.tokens.size() <= kBlockSizeMax);
  SmallBuffer<1 + 9> head;
  head.CborHead(Major::kArray, 3);
  head.CborHead(Major::kBytes, message.parent.size());
  sink(head.bytes());
  sink(message.parent);
  SmallBuffer<9 + 5 * kBlockSizeMax> tokens;
  tokens.CborHead(Major::kArray, message.tokens.size());
  for (const TokenId token : message.tokens) tokens.CborInteger(token);
  sink(tokens.bytes());
  SmallBuffer<9> extras;
  if (message.extras.empty()) {
    extras.Byte(kCborNull);
  } else {
    extras.CborHead(Major::kArray, message.extras.size());
  }
  sink(extras.bytes());
  for (const ExtraKey& extra : message.extras) WriteCborExtra(extra, sink);
}

void WriteCborText(std::string_view text, ByteSink sink) {
  SmallBuffer<9> head;
  head.CborHead(Major::kText, text.size());
  sink(head.bytes());
  sink(BytesOf(text));
}

}  // namespace incipit
