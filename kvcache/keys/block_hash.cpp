#include "kvcache/keys/block_hash.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/hash/xxh3.h"

namespace incipit {
namespace {

// A buffer for the bytes that are hashed for the key of one block: digest of the previous block,
// tokens and padding of SHA-256. Not used for blocks with other inputs, such as images.
using MessageBuffer =
    std::array<uint8_t, PlainMessageBytesMax(kBlockSizeMax) + 2 * kSha256ChunkBytes>;

void CopyTokens(std::span<const TokenId> tokens, uint8_t* out) {
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(out, tokens.data(), tokens.size_bytes());
  } else {
    for (const TokenId token : tokens) {
      for (int shift = 0; shift < 32; shift += 8) {
        *out++ = static_cast<uint8_t>(static_cast<uint32_t>(token) >> shift);
      }
    }
  }
}

// The inputs for the key of one block, other than tokens: name of the adapter, images and other
// media in the block, tenant and salt.
class BlockExtras {
 public:
  BlockExtras(const ChainRoot& root, int64_t token_begin, int64_t num_tokens) {
    const CacheNamespace& names = root.cache_namespace;
    if (names.adapter) Add({ExtraKind::kAdapterName, names.adapter->name});
    const auto ends_before = [=](const MediaSpan& media) {
      return media.token_begin + media.num_tokens <= token_begin;
    };
    auto it = std::ranges::partition_point(root.media, ends_before);
    for (; it != root.media.end() && it->token_begin < token_begin + num_tokens; ++it) {
      Add({ExtraKind::kMedia, it->content_hash, it->token_begin - token_begin});
    }
    if (token_begin > 0) return;
    if (names.tenant) Add({ExtraKind::kTenant, *names.tenant});
    if (!names.salt.empty()) Add({ExtraKind::kSalt, names.salt});
  }

  std::span<const ExtraKey> keys() const { return std::span(keys_).first(count_); }

 private:
  void Add(const ExtraKey& key) { keys_[count_++] = key; }

  // This array has room for the adapter, the tenant, the salt, and one image (or other medium) for
  // each token of the block.
  std::array<ExtraKey, kBlockSizeMax + 3> keys_;
  size_t count_ = 0;
};

bool IsOrdered(std::span<const MediaSpan> media) {
  int64_t end = 0;
  for (const MediaSpan& item : media) {
    if (item.token_begin < end || item.num_tokens < 1) return false;
    end = item.token_begin + item.num_tokens;
  }
  return true;
}

}  // namespace

CacheNamespace MakeCacheNamespace(std::optional<std::string_view> tenant, std::string_view salt) {
  CacheNamespace cache_namespace;
  if (tenant) cache_namespace.tenant = *tenant;
  cache_namespace.salt = salt;
  return cache_namespace;
}

uint64_t TenantDigest(std::optional<std::string_view> tenant) {
  if (!tenant) return 0;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(tenant->data());
  const uint64_t digest = BlockHash{Sha256({bytes, tenant->size()})}.prefix();
  return digest == 0 ? 1 : digest;
}

BlockHasher::BlockHasher(BlockHasherOptions options, int32_t digest_bits)
    : options_(std::move(options)),
      digest_bits_(digest_bits),
      sha256_(&Sha256Implementations().front()) {
  INCIPIT_CHECK(options_.block_size >= 1 && options_.block_size <= kBlockSizeMax);
  INCIPIT_CHECK(digest_bits >= 0 && digest_bits <= kDigestBitsMax);
  const auto num_tokens = static_cast<size_t>(options_.block_size);
  const MessageTrailer trailer = PlainBlockTrailer(num_tokens);
  auto end = std::ranges::copy(trailer, tail_.begin()).out;
  if (options_.algorithm == HashAlgorithm::kSha256) {
    const Sha256Padding padding(sizeof(Sha256Digest) + 4 * num_tokens + trailer.size());
    end = std::ranges::copy(padding.bytes(), end).out;
  }
  tail_bytes_ = static_cast<size_t>(end - tail_.begin());
}

ChainRoot BlockHasher::Root(const CacheNamespace& cache_namespace,
                            std::vector<MediaSpan> media) const {
  INCIPIT_CHECK(IsOrdered(media));
  const auto write_root = [&](ByteSink sink) { WriteRoot(options_.seed, cache_namespace, sink); };
  const auto write_seed = [&](ByteSink sink) { WriteCborText(options_.seed, sink); };
  ChainRoot root;
  root.digest = Sha256Of(write_root);
  root.media = std::move(media);
  root.is_default_namespace =
      cache_namespace.tenant.value_or(std::string(kDefaultTenant)) == kDefaultTenant &&
      cache_namespace.salt.empty() && !cache_namespace.adapter;
  if (IsCbor(options_.algorithm)) {
    root.parent = Digest({}, write_seed);
    root.cache_namespace = cache_namespace;
  } else {
    root.parent = Digest({}, write_root);
  }
  return root;
}

BlockHash BlockHasher::Next(const BlockHash& parent, std::span<const TokenId> tokens,
                            std::span<const ExtraKey> extras) const {
  INCIPIT_CHECK(tokens.size() == static_cast<size_t>(options_.block_size));
  if (extras.empty()) {
    BlockHash hash;
    HashBlocks(parent, tokens, {&hash, 1});
    return hash;
  }
  const BlockMessage message = {.parent = DigestOf(parent), .tokens = tokens, .extras = extras};
  return Digest(parent, [&](ByteSink sink) {
    IsCbor(options_.algorithm) ? WriteCborBlock(message, sink) : WriteBlock(message, sink);
  });
}

BlockHash BlockHasher::KeyAt(const ChainRoot& root, size_t index, const BlockHash& parent,
                             std::span<const TokenId> tokens) const {
  if (!root.has_extras()) return Next(parent, tokens);
  const auto begin = static_cast<int64_t>(index) * options_.block_size;
  return Next(parent, tokens, BlockExtras(root, begin, options_.block_size).keys());
}

void BlockHasher::Extend(const ChainRoot& root, const SequenceTokens& tokens,
                         std::vector<BlockHash>& hashes) const {
  const auto block_size = static_cast<size_t>(options_.block_size);
  const size_t num_full = tokens.size() / block_size;
  size_t index = hashes.size();
  if (index >= num_full) return;
  hashes.resize(num_full);
  while (index < num_full) {
    const auto piece = tokens.From(index * block_size);
    const size_t end = std::min(index + piece.size() / block_size, num_full);
    const BlockHash* before = index == 0 ? &root.parent : &hashes[index - 1];
    if (!root.has_extras()) {
      HashBlocks(*before, piece, std::span(hashes).subspan(index, end - index));
    } else {
      for (size_t i = index; i < end; ++i) {
        hashes[i] = KeyAt(root, i, *before, piece.subspan((i - index) * block_size, block_size));
        before = &hashes[i];
      }
    }
    index = end;
  }
}

// Computes the keys of consecutive blocks from their tokens only (blocks with images have more
// inputs). `parent` is the key of the block before the first of these blocks.
void BlockHasher::HashBlocks(const BlockHash& parent, std::span<const TokenId> tokens,
                             std::span<BlockHash> hashes) const {
  if (options_.algorithm == HashAlgorithm::kSha256) return HashBlocksSha256(parent, tokens, hashes);
  if (options_.algorithm == HashAlgorithm::kXxh3) return HashBlocksXxh3(parent, tokens, hashes);
  const auto block_size = static_cast<size_t>(options_.block_size);
  BlockHash before = parent;
  MessageBuffer buffer;
  for (BlockHash& hash : hashes) {
    uint8_t* end = buffer.data();
    const auto append = [&end](std::span<const uint8_t> bytes) {
      std::memcpy(end, bytes.data(), bytes.size());
      end += bytes.size();
    };
    WriteCborBlock({DigestOf(before), tokens.first(block_size), {}}, append);
    tokens = tokens.subspan(block_size);
    const auto message_bytes = static_cast<size_t>(end - buffer.data());
    if (IsSha256(options_.algorithm)) {
      append(Sha256Padding(message_bytes).bytes());
      const auto num_chunks = static_cast<size_t>(end - buffer.data()) / kSha256ChunkBytes;
      sha256_->digest_padded(buffer.data(), num_chunks, hash.bytes.data());
      Truncate(hash.bytes);
    } else {
      hash = Key(Xxh3({buffer.data(), message_bytes}), before);
    }
    before = hash;
  }
}

// Computes the keys of consecutive blocks with SHA-256. Writes the digest of each block to the
// start of `buffer`: the bytes that are hashed for the next block begin with this digest.
void BlockHasher::HashBlocksSha256(const BlockHash& parent, std::span<const TokenId> tokens,
                                   std::span<BlockHash> hashes) const {
  const auto block_size = static_cast<size_t>(options_.block_size);
  MessageBuffer buffer;
  uint8_t* const message = buffer.data();
  uint8_t* const tail = message + sizeof(BlockHash) + 4 * block_size;
  std::memcpy(message, parent.bytes.data(), sizeof(BlockHash));
  std::memcpy(tail, tail_.data(), tail_bytes_);
  const auto num_chunks = static_cast<size_t>(tail + tail_bytes_ - message) / kSha256ChunkBytes;
  for (BlockHash& hash : hashes) {
    CopyTokens(tokens.first(block_size), message + sizeof(BlockHash));
    tokens = tokens.subspan(block_size);
    sha256_->digest_padded(message, num_chunks, message);
    Truncate({message, sizeof(BlockHash)});
    std::memcpy(hash.bytes.data(), message, sizeof(BlockHash));
  }
}

void BlockHasher::HashBlocksXxh3(const BlockHash& parent, std::span<const TokenId> tokens,
                                 std::span<BlockHash> hashes) const {
  const auto block_size = static_cast<size_t>(options_.block_size);
  MessageBuffer buffer;
  uint8_t* const message = buffer.data();
  Xxh3Digest before;
  std::memcpy(before.data(), parent.bytes.data(), before.size());
  std::memcpy(message + before.size() + 4 * block_size, tail_.data(), tail_bytes_);
  const size_t message_bytes = before.size() + 4 * block_size + tail_bytes_;
  for (BlockHash& hash : hashes) {
    std::memcpy(message, before.data(), before.size());
    CopyTokens(tokens.first(block_size), message + before.size());
    tokens = tokens.subspan(block_size);
    Xxh3Digest digest = Xxh3({message, message_bytes});
    Truncate(digest);
    std::memcpy(hash.bytes.data(), digest.data(), digest.size());
    std::memcpy(hash.bytes.data() + digest.size(), before.data(), before.size());
    before = digest;
  }
}

BlockHash BlockHasher::Digest(const BlockHash& parent, ByteSource message) const {
  return IsSha256(options_.algorithm) ? Key(Sha256Of(message), parent)
                                      : Key(Xxh3Of(message), parent);
}

BlockHash BlockHasher::Key(std::span<const uint8_t> digest, const BlockHash& parent) const {
  BlockHash key;
  const auto own_end = std::ranges::copy(digest, key.bytes.begin()).out;
  Truncate({key.bytes.begin(), own_end});
  const auto num_left = static_cast<size_t>(key.bytes.end() - own_end);
  std::ranges::copy(std::span(parent.bytes).first(num_left), own_end);
  return key;
}

void BlockHasher::Truncate(std::span<uint8_t> digest) const {
  const auto num_bits = static_cast<size_t>(digest_bits_);
  if (num_bits >= 8 * digest.size()) [[likely]]
    return;
  digest[num_bits / 8] &= static_cast<uint8_t>(0xff00 >> (num_bits % 8));
  std::ranges::fill(digest.subspan(num_bits / 8 + 1), uint8_t{0});
}

}  // namespace incipit
