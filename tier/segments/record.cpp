#include "tier/segments/record.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/hash/xxh3.h"

namespace incipit {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

Xxh3Digest ChecksumOf(std::span<const std::byte> record) {
  return Xxh3({reinterpret_cast<const uint8_t*>(record.data()), record.size() - kChecksumBytes});
}

void FillZero(std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{0}); }

// Compares the tokens of `wanted` with the token ids in the record that begins at `record`.
bool TokensEqual(const SequenceTokens& wanted, std::span<const std::byte> record) {
  const std::byte* stored = record.data() + sizeof(RecordHeader);
  for (size_t begin = 0; begin < wanted.size();) {
    const std::span<const TokenId> piece = wanted.From(begin);
    if (std::memcmp(piece.data(), stored, piece.size_bytes()) != 0) return false;
    begin += piece.size();
    stored += piece.size_bytes();
  }
  return true;
}

RejectReason VerifyFormat(const RecordHeader& header, const Fingerprint& fingerprint) {
  if (header.magic != kRecordMagic) return RejectReason::kMagic;
  if (header.version != kRecordVersion) return RejectReason::kVersion;
  if (header.fingerprint != fingerprint) return RejectReason::kFingerprint;
  return RejectReason::kOk;
}

RejectReason VerifyIdentity(const RecordLayout& layout, const RecordHeader& header,
                            const ChunkIdentity& wanted, std::span<const std::byte> record) {
  if (header.key != wanted.key) return RejectReason::kKey;
  if (header.parent != wanted.parent) return RejectReason::kParent;
  if (header.first_token != wanted.first_token) return RejectReason::kPosition;
  if (header.namespace_digest != wanted.namespace_digest) return RejectReason::kNamespace;
  if (header.num_tokens != layout.num_tokens || wanted.tokens.size() != layout.num_tokens ||
      !TokensEqual(wanted.tokens, record)) {
    return RejectReason::kTokens;
  }
  return RejectReason::kOk;
}

RejectReason VerifyContents(const RecordLayout& layout, const RecordHeader& header,
                            std::span<const std::byte> record, int64_t now_s) {
  if (header.num_tokens != layout.num_tokens) return RejectReason::kTokens;
  if (header.payload_bytes != layout.payload_bytes) return RejectReason::kSize;
  if (header.expires_s != 0 && header.expires_s <= now_s) return RejectReason::kExpired;
  const Xxh3Digest checksum = ChecksumOf(record);
  if (std::memcmp(checksum.data(), record.last(kChecksumBytes).data(), kChecksumBytes) != 0) {
    return RejectReason::kChecksum;
  }
  return RejectReason::kOk;
}

}  // namespace

RecordLayout::RecordLayout(const ChunkShape& shape)
    : RecordLayout(static_cast<uint32_t>(shape.num_tokens()), shape.num_bytes()) {}

RecordLayout::RecordLayout(uint32_t tokens, size_t payload)
    : num_tokens(tokens),
      payload_bytes(payload),
      payload_begin(RoundUp(sizeof(RecordHeader) + sizeof(TokenId) * tokens, 64)),
      record_bytes(RoundUp(payload_begin + payload_bytes + kChecksumBytes, kPageBytes)) {}

void CopyTokens(const SequenceTokens& tokens, std::span<TokenId> out) {
  INCIPIT_CHECK(tokens.size() == out.size());
  for (size_t begin = 0; begin < tokens.size();) {
    const std::span<const TokenId> piece = tokens.From(begin);
    std::ranges::copy(piece, out.begin() + static_cast<ptrdiff_t>(begin));
    begin += piece.size();
  }
}

bool SameChunk(const ChunkIdentity& a, const ChunkIdentity& b) {
  if (a.key != b.key || a.parent != b.parent || a.first_token != b.first_token ||
      a.namespace_digest != b.namespace_digest || a.tokens.size() != b.tokens.size()) {
    return false;
  }
  for (size_t begin = 0; begin < a.tokens.size();) {
    const auto left = a.tokens.From(begin), right = b.tokens.From(begin);
    const size_t count = std::min(left.size(), right.size());
    if (!std::ranges::equal(left.first(count), right.first(count))) return false;
    begin += count;
  }
  return true;
}

void EncodeRecord(const RecordLayout& layout, const Fingerprint& fingerprint,
                  const ChunkIdentity& chunk, const RecordTimes& times,
                  std::span<std::byte> record) {
  INCIPIT_CHECK(record.size() == layout.record_bytes);
  INCIPIT_CHECK(chunk.tokens.size() == layout.num_tokens);
  RecordHeader header;
  header.num_tokens = layout.num_tokens;
  header.fingerprint = fingerprint;
  header.key = chunk.key;
  header.parent = chunk.parent;
  header.namespace_digest = chunk.namespace_digest;
  header.first_token = chunk.first_token;
  header.tenant = chunk.tenant;
  header.payload_bytes = layout.payload_bytes;
  header.created_s = times.created_s;
  header.expires_s = times.expires_s;
  header.priority = times.priority;
  std::memcpy(record.data(), &header, sizeof(header));
  std::byte* out = record.data() + sizeof(header);
  for (size_t begin = 0; begin < chunk.tokens.size();) {
    const std::span<const TokenId> piece = chunk.tokens.From(begin);
    std::memcpy(out, piece.data(), piece.size_bytes());
    begin += piece.size();
    out += piece.size_bytes();
  }
  FillZero({out, record.data() + layout.payload_begin});
  FillZero(record.subspan(layout.payload_begin + layout.payload_bytes));
}

void SealRecord(std::span<std::byte> record) {
  const Xxh3Digest checksum = ChecksumOf(record);
  std::memcpy(record.last(kChecksumBytes).data(), checksum.data(), kChecksumBytes);
}

RecordHeader HeaderOf(std::span<const std::byte> record) {
  RecordHeader header;
  std::memcpy(&header, record.data(), sizeof(header));
  return header;
}

std::optional<RecordLayout> LayoutOf(const RecordHeader& header, size_t record_bytes) {
  // The first comparison prevents an overflow in RecordLayout.
  if (header.num_tokens == 0 || header.payload_bytes > record_bytes) return std::nullopt;
  const RecordLayout layout(header.num_tokens, header.payload_bytes);
  if (layout.record_bytes != record_bytes) return std::nullopt;
  return layout;
}

bool IsUnused(std::span<const std::byte> record) {
  return std::ranges::all_of(record.first(kPageBytes),
                             [](std::byte byte) { return byte == std::byte{0}; });
}

RejectReason VerifyAnyRecord(const RecordLayout& layout, const Fingerprint& fingerprint,
                             std::span<const std::byte> record, int64_t now_s) {
  if (record.size() != layout.record_bytes) return RejectReason::kSize;
  const RecordHeader header = HeaderOf(record);
  const RejectReason format = VerifyFormat(header, fingerprint);
  if (format != RejectReason::kOk) return format;
  return VerifyContents(layout, header, record, now_s);
}

RejectReason VerifyAnyRecord(const Fingerprint& fingerprint, std::span<const std::byte> record,
                             int64_t now_s) {
  if (record.size() < kPageBytes) return RejectReason::kSize;
  const RecordHeader header = HeaderOf(record);
  const RejectReason format = VerifyFormat(header, fingerprint);
  if (format != RejectReason::kOk) return format;
  const std::optional<RecordLayout> layout = LayoutOf(header, record.size());
  return layout ? VerifyContents(*layout, header, record, now_s) : RejectReason::kSize;
}

RejectReason VerifyRecord(const RecordLayout& layout, const Fingerprint& fingerprint,
                          const ChunkIdentity& wanted, std::span<const std::byte> record,
                          int64_t now_s, FiniteCheck is_finite) {
  if (record.size() != layout.record_bytes) return RejectReason::kSize;
  const RecordHeader header = HeaderOf(record);
  const RejectReason format = VerifyFormat(header, fingerprint);
  if (format != RejectReason::kOk) return format;
  const RejectReason identity = VerifyIdentity(layout, header, wanted, record);
  if (identity != RejectReason::kOk) return identity;
  const RejectReason contents = VerifyContents(layout, header, record, now_s);
  if (contents != RejectReason::kOk) return contents;
  if (is_finite != nullptr && !is_finite(layout.PayloadOf(record))) return RejectReason::kNotFinite;
  return RejectReason::kOk;
}

}  // namespace incipit
