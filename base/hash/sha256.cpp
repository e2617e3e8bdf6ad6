#include "base/hash/sha256.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash/sha256_rounds.h"

namespace incipit {
namespace {

// Computes the digest of a message that arrives in pieces of any length.
class Sha256Stream {
 public:
  explicit Sha256Stream(const Sha256Implementation& implementation)
      : implementation_(implementation) {}

  void Append(std::span<const uint8_t> bytes) {
    num_bytes_ += bytes.size();
    if (num_pending_ > 0) {
      const auto head = bytes.first(std::min(bytes.size(), kSha256ChunkBytes - num_pending_));
      Keep(head);
      bytes = bytes.subspan(head.size());
      if (num_pending_ < kSha256ChunkBytes) return;
      implementation_.compress(state_, pending_.data(), 1);
      num_pending_ = 0;
    }
    const size_t num_chunks = bytes.size() / kSha256ChunkBytes;
    implementation_.compress(state_, bytes.data(), num_chunks);
    Keep(bytes.subspan(num_chunks * kSha256ChunkBytes));
  }

  Sha256Digest Finish() {
    const Sha256Padding padding(num_bytes_);
    Append(padding.bytes());
    INCIPIT_CHECK(num_pending_ == 0);
    Sha256Digest digest;
    for (size_t i = 0; i < digest.size(); ++i) {
      digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    }
    return digest;
  }

 private:
  void Keep(std::span<const uint8_t> bytes) {
    std::ranges::copy(bytes, pending_.begin() + static_cast<ptrdiff_t>(num_pending_));
    num_pending_ += bytes.size();
  }

  const Sha256Implementation& implementation_;
  Sha256State state_ = kSha256Initial;
  std::array<uint8_t, kSha256ChunkBytes> pending_;
  size_t num_pending_ = 0;
  uint64_t num_bytes_ = 0;
};

struct RunnableSha256 {
  std::array<Sha256Implementation, 2> implementations;
  size_t count = 0;

  RunnableSha256() {
    if (const Sha256Implementation* native = Sha256Native()) implementations[count++] = *native;
    implementations[count++] = kSha256Portable;
  }
};

}  // namespace

std::span<const Sha256Implementation> Sha256Implementations() {
  static const RunnableSha256 runnable;
  return std::span(runnable.implementations).first(runnable.count);
}

Sha256Padding::Sha256Padding(uint64_t message_bytes) {
  const auto rest = static_cast<size_t>(message_bytes % kSha256ChunkBytes);
  const bool fits = rest + 9 <= kSha256ChunkBytes;
  size_ = (fits ? kSha256ChunkBytes : 2 * kSha256ChunkBytes) - rest;
  bytes_[0] = 0x80;
  for (size_t i = 0; i < 8; ++i) {
    bytes_[size_ - 1 - i] = static_cast<uint8_t>(message_bytes * 8 >> (8 * i));
  }
}

Sha256Digest Sha256(std::span<const uint8_t> message, const Sha256Implementation& implementation) {
  Sha256Stream stream(implementation);
  stream.Append(message);
  return stream.Finish();
}

Sha256Digest Sha256Of(ByteSource message, const Sha256Implementation& implementation) {
  Sha256Stream stream(implementation);
  message([&stream](std::span<const uint8_t> bytes) { stream.Append(bytes); });
  return stream.Finish();
}

}  // namespace incipit
