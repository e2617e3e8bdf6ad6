// Records: the form in which the disk tier stores a chunk. A record has a header, the token ids,
// the keys and values (payload), and a checksum of all these bytes. A record is a whole number of
// pages of 4,096 bytes, because direct I/O reads and writes only whole pages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/enum_names.h"
#include "base/types.h"
#include "kvcache/retention.h"
#include "kvcache/tiers/chunk.h"

namespace incipit {

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kChecksumBytes = 16;
// "INCKVREC" in the order of bytes in the file.
inline constexpr uint64_t kRecordMagic = 0x4345'5256'4b43'4e49;
// Version of the file format. A change of RecordHeader, of the layout of segments or of the
// checksum needs a new version.
inline constexpr uint32_t kRecordVersion = 1;

constexpr size_t RoundUp(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// Returns false if the keys and values `payload` contain a value that is NaN or infinite.
using FiniteCheck = bool (*)(std::span<const std::byte> payload);

// The first bytes of a record, in little-endian byte order.
struct RecordHeader {
  uint64_t magic = kRecordMagic;
  uint32_t version = kRecordVersion;
  uint32_t num_tokens = 0;
  Fingerprint fingerprint{};
  BlockHash key;
  BlockHash parent;
  std::array<uint8_t, 32> namespace_digest{};
  int64_t first_token = 0;
  uint64_t tenant = 0;
  uint64_t payload_bytes = 0;
  int64_t created_s = 0;  // seconds since 1970
  int64_t expires_s = 0;  // seconds since 1970; 0: the record does not expire
  int32_t priority = 0;   // retention priority
  int32_t reserved = 0;
};
static_assert(sizeof(RecordHeader) == 192);

// The position of each part of a record. All records of one fingerprint have the same layout.
struct RecordLayout {
  explicit RecordLayout(const ChunkShape& shape);
  RecordLayout(uint32_t num_tokens, size_t payload_bytes);

  uint32_t num_tokens;
  size_t payload_bytes;
  size_t payload_begin;  // offset of the payload in the record; a multiple of 64
  size_t record_bytes;   // a multiple of kPageBytes

  // Returns the payload of `record`.
  template <typename Byte>
  std::span<Byte> PayloadOf(std::span<Byte> record) const {
    return record.subspan(payload_begin, payload_bytes);
  }
};

// The result of the check of a record. Each value except kOk names the first check that failed.
enum class RejectReason : uint8_t {
  kOk,
  kMagic,
  kVersion,
  kFingerprint,
  kKey,
  kParent,
  kPosition,
  kNamespace,
  kTokens,
  kSize,
  kExpired,
  kChecksum,
  kNotFinite,
};
inline constexpr size_t kNumRejectReasons = 13;
inline constexpr EnumName<RejectReason> kRejectReasonNames[] = {
    {RejectReason::kOk, "ok"},
    {RejectReason::kMagic, "magic"},
    {RejectReason::kVersion, "version"},
    {RejectReason::kFingerprint, "fingerprint"},
    {RejectReason::kKey, "key"},
    {RejectReason::kParent, "parent"},
    {RejectReason::kPosition, "position"},
    {RejectReason::kNamespace, "namespace"},
    {RejectReason::kTokens, "tokens"},
    {RejectReason::kSize, "size"},
    {RejectReason::kExpired, "expired"},
    {RejectReason::kChecksum, "checksum"},
    {RejectReason::kNotFinite, "not_finite"},
};

// The fields of a record that ChunkIdentity does not contain.
struct RecordTimes {
  int64_t created_s = 0;
  int64_t expires_s = 0;
  int32_t priority = kRetentionPriorityDefault;
};

// Copies the token ids of `tokens` to `out`. REQUIRES: the sizes are equal.
void CopyTokens(const SequenceTokens& tokens, std::span<TokenId> out);
// Returns true if `a` and `b`, except their tenants, are equal.
bool SameChunk(const ChunkIdentity& a, const ChunkIdentity& b);

// Writes the header and the token ids to `record`, and zeros to all bytes between the parts. The
// caller then writes the payload and calls SealRecord. REQUIRES: `record` has layout.record_bytes
// bytes, and `chunk` has layout.num_tokens tokens.
void EncodeRecord(const RecordLayout& layout, const Fingerprint& fingerprint,
                  const ChunkIdentity& chunk, const RecordTimes& times,
                  std::span<std::byte> record);
// Writes the checksum of all other bytes of `record` to the last kChecksumBytes bytes.
void SealRecord(std::span<std::byte> record);

RecordHeader HeaderOf(std::span<const std::byte> record);
// Returns the layout that `header` describes, or std::nullopt if a record with this header does not
// have `record_bytes` bytes. The fields of `header` may have any values.
std::optional<RecordLayout> LayoutOf(const RecordHeader& header, size_t record_bytes);
// Returns true if the first page of `record` contains only zeros: the record was never written, or
// was erased.
bool IsUnused(std::span<const std::byte> record);

// Returns kOk if `record` is a complete record of any chunk, with the layout `layout` and the
// fingerprint `fingerprint`. `now_s` is the time in seconds since 1970.
RejectReason VerifyAnyRecord(const RecordLayout& layout, const Fingerprint& fingerprint,
                             std::span<const std::byte> record, int64_t now_s);
// As above, for a record of any layout. The layout is read from the header of the record.
RejectReason VerifyAnyRecord(const Fingerprint& fingerprint, std::span<const std::byte> record,
                             int64_t now_s);
// Returns kOk if `record` is a complete record of the chunk `wanted`. The tenant may differ. If
// `is_finite` is null, the values are not checked.
RejectReason VerifyRecord(const RecordLayout& layout, const Fingerprint& fingerprint,
                          const ChunkIdentity& wanted, std::span<const std::byte> record,
                          int64_t now_s, FiniteCheck is_finite);

}  // namespace incipit
