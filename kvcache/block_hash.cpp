#include "kvcache/block_hash.h"

#include <algorithm>

#include "base/check.h"
#include "kvcache/kv_layout.h"
#include "kvcache/sha256.h"

namespace incipit {
namespace {

// What a digest is of: the first byte of every message, so that no two kinds share one.
enum class Frame : uint8_t { kNamespace = 'N', kRoot = 'R', kBlock = 'B' };
// A part of a namespace. An absent part is left out, an empty one is not.
enum class Field : uint8_t { kTenant = 1, kSalt = 2 };

constexpr size_t kBlockFrameBytes = 1 + 4 + 4;

uint8_t* AppendUint32(uint32_t value, uint8_t* out) {
  for (int i = 0; i < 4; ++i) *out++ = static_cast<uint8_t>(value >> (8 * i));
  return out;
}

void AppendLength(size_t length, std::vector<uint8_t>& out) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<uint8_t>(uint64_t{length} >> (8 * i)));
}

void AppendField(Field field, std::string_view content, std::vector<uint8_t>& out) {
  out.push_back(static_cast<uint8_t>(field));
  AppendLength(content.size(), out);
  out.insert(out.end(), content.begin(), content.end());
}

}  // namespace

CacheNamespace MakeCacheNamespace(std::optional<std::string_view> tenant, std::string_view salt) {
  std::vector<uint8_t> message = {static_cast<uint8_t>(Frame::kNamespace)};
  if (tenant) AppendField(Field::kTenant, *tenant, message);
  if (!salt.empty()) AppendField(Field::kSalt, salt, message);
  return {.digest = Sha256(message)};
}

BlockHasher::BlockHasher(int32_t block_size, std::string_view seed)
    : block_size_(block_size), seed_(seed) {
  INCIPIT_CHECK(block_size >= 1 && block_size <= kBlockSizeMax);
}

BlockHash BlockHasher::Root(const CacheNamespace& cache_namespace) const {
  std::vector<uint8_t> message = {static_cast<uint8_t>(Frame::kRoot)};
  AppendLength(seed_.size(), message);
  message.insert(message.end(), seed_.begin(), seed_.end());
  message.insert(message.end(), cache_namespace.digest.begin(), cache_namespace.digest.end());
  return {.bytes = Sha256(message)};
}

// Frame: the kind, the number of tokens, and the number of bytes of extra keys after them (none
// yet). With 16 tokens that is 105 bytes, and sha256 pads up to 119 into two compressions.
BlockHash BlockHasher::Next(const BlockHash& parent, std::span<const TokenId> tokens) const {
  INCIPIT_CHECK(tokens.size() == static_cast<size_t>(block_size_));
  std::array<uint8_t, kBlockFrameBytes + sizeof(BlockHash) + 4 * kBlockSizeMax> message;
  uint8_t* out = message.data();
  *out++ = static_cast<uint8_t>(Frame::kBlock);
  out = AppendUint32(static_cast<uint32_t>(tokens.size()), out);
  out = AppendUint32(0, out);
  out = std::ranges::copy(parent.bytes, out).out;
  for (const TokenId token : tokens) out = AppendUint32(static_cast<uint32_t>(token), out);
  return {.bytes = Sha256({message.data(), out})};
}

void BlockHasher::Extend(const BlockHash& root, std::span<const TokenId> tokens,
                         std::vector<BlockHash>& hashes) const {
  const auto block_size = static_cast<size_t>(block_size_);
  while ((hashes.size() + 1) * block_size <= tokens.size()) {
    const BlockHash& parent = hashes.empty() ? root : hashes.back();
    hashes.push_back(Next(parent, tokens.subspan(hashes.size() * block_size, block_size)));
  }
}

}  // namespace incipit
