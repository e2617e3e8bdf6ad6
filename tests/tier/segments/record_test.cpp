// Tests that a record is accepted only for the chunk that the record was written for.
#include "tier/segments/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/tier/tier_chunks.h"

namespace incipit {
namespace {

constexpr int64_t kNow = 5000;

bool IsFinite(std::span<const std::byte> payload) {
  for (size_t i = 0; i + 4 <= payload.size(); i += 4) {
    float value;
    std::memcpy(&value, payload.data() + i, sizeof(value));
    if (!std::isfinite(value)) return false;
  }
  return true;
}

class RecordTest : public testing::Test {
 protected:
  RecordTest() { Write({.created_s = 100, .expires_s = kNow + 1, .priority = 70}); }

  void Write(const RecordTimes& times) {
    fingerprint_.fill(3);
    record_.assign(layout_.record_bytes, std::byte{0xee});
    EncodeRecord(layout_, fingerprint_, chunk_.identity, times, record_);
    for (std::byte& byte : layout_.PayloadOf(std::span(record_))) byte = std::byte{1};
    SealRecord(record_);
  }
  RejectReason Verify(const ChunkIdentity& wanted) const {
    return VerifyRecord(layout_, fingerprint_, wanted, record_, kNow, IsFinite);
  }
  RejectReason Verify() const { return Verify(chunk_.identity); }

  const RecordLayout layout_{kTestShape};
  const TestChunk chunk_{1, 5};
  Fingerprint fingerprint_{};
  std::vector<std::byte> record_;
};

TEST_F(RecordTest, LayoutIsAWholeNumberOfPages) {
  EXPECT_EQ(layout_.num_tokens, 8u);
  EXPECT_EQ(layout_.payload_begin, 256u);
  EXPECT_EQ(layout_.payload_bytes, 8192u);
  EXPECT_EQ(layout_.record_bytes, 3 * kPageBytes);
}

TEST_F(RecordTest, AcceptsItsChunk) {
  EXPECT_EQ(Verify(), RejectReason::kOk);
  EXPECT_EQ(VerifyAnyRecord(layout_, fingerprint_, record_, kNow), RejectReason::kOk);
  const RecordHeader header = HeaderOf(record_);
  EXPECT_EQ(header.created_s, 100);
  EXPECT_EQ(header.expires_s, kNow + 1);
  EXPECT_EQ(header.priority, 70);
  EXPECT_EQ(header.tenant, chunk_.identity.tenant);
}

TEST_F(RecordTest, AcceptsTokensInTwoPieces) {
  ChunkIdentity wanted = chunk_.identity;
  const std::span<const TokenId> tokens(chunk_.tokens);
  wanted.tokens = SequenceTokens(tokens.first(4), tokens.subspan(4));
  EXPECT_EQ(Verify(wanted), RejectReason::kOk);
}

TEST_F(RecordTest, DoesNotCompareTenants) {
  ChunkIdentity wanted = chunk_.identity;
  wanted.tenant = 12;
  EXPECT_EQ(Verify(wanted), RejectReason::kOk);
}

TEST_F(RecordTest, RejectsEachOtherWantedField) {
  const auto rejects = [&](RejectReason reason, auto change) {
    ChunkIdentity wanted = chunk_.identity;
    change(wanted);
    EXPECT_EQ(Verify(wanted), reason) << NameIn(kRejectReasonNames, reason);
  };
  rejects(RejectReason::kKey, [](ChunkIdentity& w) { w.key.bytes[31] ^= 1; });
  rejects(RejectReason::kParent, [](ChunkIdentity& w) { w.parent.bytes[31] ^= 1; });
  rejects(RejectReason::kPosition, [](ChunkIdentity& w) { w.first_token += 8; });
  rejects(RejectReason::kNamespace, [](ChunkIdentity& w) { w.namespace_digest[31] ^= 1; });
  std::vector<TokenId> tokens = chunk_.tokens;
  tokens[7] ^= 1;
  rejects(RejectReason::kTokens, [&](ChunkIdentity& w) { w.tokens = tokens; });
  tokens.pop_back();
  rejects(RejectReason::kTokens, [&](ChunkIdentity& w) { w.tokens = tokens; });
  Fingerprint other = fingerprint_;
  other[31] ^= 1;
  EXPECT_EQ(VerifyRecord(layout_, other, chunk_.identity, record_, kNow, nullptr),
            RejectReason::kFingerprint);
}

struct FieldCase {
  const char* name;
  size_t offset;
  size_t size;
  RejectReason reason;
};

TEST_F(RecordTest, RejectsEachCorruptField) {
  const FieldCase cases[] = {
      {"magic", offsetof(RecordHeader, magic), 8, RejectReason::kMagic},
      {"version", offsetof(RecordHeader, version), 4, RejectReason::kVersion},
      {"num_tokens", offsetof(RecordHeader, num_tokens), 4, RejectReason::kTokens},
      {"fingerprint", offsetof(RecordHeader, fingerprint), 32, RejectReason::kFingerprint},
      {"key", offsetof(RecordHeader, key), 32, RejectReason::kKey},
      {"parent", offsetof(RecordHeader, parent), 32, RejectReason::kParent},
      {"namespace", offsetof(RecordHeader, namespace_digest), 32, RejectReason::kNamespace},
      {"first_token", offsetof(RecordHeader, first_token), 8, RejectReason::kPosition},
      {"tenant", offsetof(RecordHeader, tenant), 8, RejectReason::kChecksum},
      {"payload_bytes", offsetof(RecordHeader, payload_bytes), 8, RejectReason::kSize},
      {"created", offsetof(RecordHeader, created_s), 8, RejectReason::kChecksum},
      {"priority", offsetof(RecordHeader, priority), 4, RejectReason::kChecksum},
      {"reserved", offsetof(RecordHeader, reserved), 4, RejectReason::kChecksum},
      {"tokens", sizeof(RecordHeader), 32, RejectReason::kTokens},
      {"payload", layout_.payload_begin, layout_.payload_bytes, RejectReason::kChecksum},
      {"padding", layout_.payload_begin + layout_.payload_bytes,
       layout_.record_bytes - layout_.payload_begin - layout_.payload_bytes,
       RejectReason::kChecksum}};
  for (const FieldCase& field : cases) {
    for (size_t i = field.offset; i < field.offset + field.size; ++i) {
      record_[i] ^= std::byte{0x10};
      ASSERT_EQ(Verify(), field.reason) << field.name << ", byte " << i;
      record_[i] ^= std::byte{0x10};
    }
  }
  // A corrupt expiry may be in the past or in the future.
  for (size_t i = 0; i < 8; ++i) {
    record_[offsetof(RecordHeader, expires_s) + i] ^= std::byte{0x80};
    EXPECT_NE(Verify(), RejectReason::kOk);
    record_[offsetof(RecordHeader, expires_s) + i] ^= std::byte{0x80};
  }
  EXPECT_EQ(Verify(), RejectReason::kOk);
}

TEST_F(RecordTest, RejectsEveryCorruptByte) {
  for (size_t i = 0; i < record_.size(); ++i) {
    record_[i] ^= std::byte{1};
    ASSERT_NE(Verify(), RejectReason::kOk) << "byte " << i;
    ASSERT_NE(VerifyAnyRecord(layout_, fingerprint_, record_, kNow), RejectReason::kOk);
    record_[i] ^= std::byte{1};
  }
}

TEST_F(RecordTest, RejectsATruncatedRecord) {
  const std::span<const std::byte> record(record_);
  EXPECT_EQ(VerifyRecord(layout_, fingerprint_, chunk_.identity, record.first(2 * kPageBytes), kNow,
                         nullptr),
            RejectReason::kSize);
  // The rest of the file has not been written.
  std::fill(record_.begin() + 2 * kPageBytes, record_.end(), std::byte{0});
  EXPECT_EQ(Verify(), RejectReason::kChecksum);
}

TEST_F(RecordTest, RejectsAnExpiredRecord) {
  EXPECT_EQ(VerifyRecord(layout_, fingerprint_, chunk_.identity, record_, kNow + 1, nullptr),
            RejectReason::kExpired);
  Write({});
  EXPECT_EQ(VerifyRecord(layout_, fingerprint_, chunk_.identity, record_, INT64_MAX, nullptr),
            RejectReason::kOk);
}

TEST_F(RecordTest, RejectsValuesThatAreNotFinite) {
  const float value = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(record_.data() + layout_.payload_begin + 4096, &value, sizeof(value));
  SealRecord(record_);
  EXPECT_EQ(Verify(), RejectReason::kNotFinite);
  EXPECT_EQ(VerifyRecord(layout_, fingerprint_, chunk_.identity, record_, kNow, nullptr),
            RejectReason::kOk);
}

TEST_F(RecordTest, EncodeLeavesNoOldBytes) {
  const std::vector<std::byte> first = record_;
  record_.assign(record_.size(), std::byte{0x55});
  Write({.created_s = 100, .expires_s = kNow + 1, .priority = 70});
  EXPECT_EQ(record_, first);
}

TEST(SameChunkTest, ComparesAllFieldsExceptTheTenant) {
  const TestChunk chunk(1, 2);
  ChunkIdentity other = chunk.identity;
  other.tenant = 99;
  EXPECT_TRUE(SameChunk(chunk.identity, other));
  const std::span<const TokenId> tokens(chunk.tokens);
  other.tokens = SequenceTokens(tokens.first(4), tokens.subspan(4));
  EXPECT_TRUE(SameChunk(chunk.identity, other));
  const auto differs = [&](auto change) {
    ChunkIdentity changed = chunk.identity;
    change(changed);
    EXPECT_FALSE(SameChunk(chunk.identity, changed));
  };
  differs([](ChunkIdentity& c) { c.key.bytes[0] ^= 1; });
  differs([](ChunkIdentity& c) { c.parent.bytes[0] ^= 1; });
  differs([](ChunkIdentity& c) { c.first_token = 0; });
  differs([](ChunkIdentity& c) { c.namespace_digest[0] ^= 1; });
  std::vector<TokenId> changed = chunk.tokens;
  changed[4] ^= 1;
  differs([&](ChunkIdentity& c) { c.tokens = changed; });
  differs([&](ChunkIdentity& c) { c.tokens = c.tokens.first(4); });
}

}  // namespace
}  // namespace incipit
