#include "tier/chunk_uses.h"

#include <cstring>

#include "base/check.h"
#include "base/hash/xxh3.h"
#include "tier/segments/segment.h"

namespace incipit {
namespace {

constexpr uint64_t kUsesMagic = 0x5345'5355'4b43'4e49;  // "INCKUSES"
constexpr uint32_t kUsesVersion = 2;

struct UsesHeader {
  uint64_t magic = kUsesMagic;
  uint32_t version = kUsesVersion;
  uint32_t reserved = 0;
  Fingerprint fingerprint{};
  uint64_t num_chunks = 0;
};
static_assert(sizeof(UsesHeader) == 56);
static_assert(sizeof(UsesHeader) + sizeof(Xxh3Digest) <= kUsesBytesMax - kChunkUsesMax * 16);

Xxh3Digest ChecksumOf(std::string_view bytes) {
  return Xxh3({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

std::string UsesName(const Fingerprint& fingerprint) {
  return FingerprintName(fingerprint) + kUsesSuffix;
}

std::string EncodeUses(const Fingerprint& fingerprint, std::span<const ChunkUses> uses) {
  INCIPIT_CHECK(uses.size() <= kChunkUsesMax);
  const UsesHeader header = {.fingerprint = fingerprint, .num_chunks = uses.size()};
  std::string contents(sizeof(header) + uses.size_bytes(), '\0');
  std::memcpy(contents.data(), &header, sizeof(header));
  if (!uses.empty()) {
    std::memcpy(contents.data() + sizeof(header), uses.data(), uses.size_bytes());
  }
  const Xxh3Digest checksum = ChecksumOf(contents);
  contents.append(reinterpret_cast<const char*>(checksum.data()), checksum.size());
  return contents;
}

std::optional<std::vector<ChunkUses>> DecodeUses(const Fingerprint& fingerprint,
                                                 std::string_view contents) {
  UsesHeader header;
  constexpr size_t kBytesMin = sizeof(UsesHeader) + sizeof(Xxh3Digest);
  if (contents.size() < kBytesMin) return std::nullopt;
  std::memcpy(&header, contents.data(), sizeof(header));
  if (header.magic != kUsesMagic || header.version != kUsesVersion ||
      header.fingerprint != fingerprint || header.num_chunks > kChunkUsesMax ||
      contents.size() != kBytesMin + header.num_chunks * sizeof(ChunkUses)) {
    return std::nullopt;
  }
  const std::string_view checked = contents.substr(0, contents.size() - sizeof(Xxh3Digest));
  const Xxh3Digest checksum = ChecksumOf(checked);
  if (std::memcmp(checksum.data(), contents.data() + checked.size(), checksum.size()) != 0) {
    return std::nullopt;
  }
  std::vector<ChunkUses> uses(header.num_chunks);
  if (uses.empty()) return uses;
  std::memcpy(uses.data(), contents.data() + sizeof(header), uses.size() * sizeof(ChunkUses));
  return uses;
}

}  // namespace incipit
