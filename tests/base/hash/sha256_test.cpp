#include "base/hash/sha256.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/kvcache/keys/hex.h"

namespace incipit {
namespace {

std::vector<uint8_t> Message(size_t length) {
  std::vector<uint8_t> message(length);
  for (size_t i = 0; i < length; ++i) message[i] = static_cast<uint8_t>(i * 37 + i / 251 + 11);
  return message;
}

Sha256Digest ByOpenSsl(std::span<const uint8_t> message) {
  Sha256Digest digest;
  EXPECT_EQ(
      EVP_Digest(message.data(), message.size(), digest.data(), nullptr, EVP_sha256(), nullptr), 1);
  return digest;
}

class Sha256Test : public testing::TestWithParam<Sha256Implementation> {
 protected:
  std::string HexOf(std::string_view message) const {
    return Hex(
        Sha256({reinterpret_cast<const uint8_t*>(message.data()), message.size()}, GetParam()));
  }
};

// The examples that NIST publishes with FIPS 180-4, and two examples of NIST's validation suite
// SHAVS. One of these two messages ends within a chunk of 64 bytes, and the other ends at the end
// of a chunk.
TEST_P(Sha256Test, EqualsThePublishedVectors) {
  EXPECT_EQ(HexOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HexOf("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnop"
                  "qklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(HexOf("\xd3"), "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
  EXPECT_EQ(HexOf("\x5a\x86\xb7\x37\xea\xea\x8e\xe9\x76\xa0\xa2\x4d\xa6\x3e\x7e\xd7\xee\xfa\xd1\x8a"
                  "\x10\x1c\x12\x11\xe2\xb3\x65\x0c\x51\x87\xc2\xa8\xa6\x50\x54\x72\x08\x25\x1f\x6d"
                  "\x42\x37\xe6\x61\xc7\xbf\x4c\x77\xf3\x35\x39\x03\x94\xc3\x7f\xa1\xa9\xf9\xbe\x83"
                  "\x6a\xc2\x85\x09"),
            "42e61e174fbb3897d6dd6cef3dd2802fe67b331953b06114a65c772859dfc1aa");
  EXPECT_EQ(HexOf(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_P(Sha256Test, EqualsAnotherImplementationAtEveryLengthAroundTheChunks) {
  for (size_t length = 0; length <= 300; ++length) {
    const std::vector<uint8_t> message = Message(length);
    ASSERT_EQ(Hex(Sha256(message, GetParam())), Hex(ByOpenSsl(message))) << length;
  }
}

TEST_P(Sha256Test, APaddedMessageHasTheDigestOfTheMessage) {
  for (size_t length = 0; length <= 300; ++length) {
    std::vector<uint8_t> chunks = Message(length);
    const Sha256Digest expected = ByOpenSsl(chunks);
    const Sha256Padding padding(length);
    chunks.insert(chunks.end(), padding.bytes().begin(), padding.bytes().end());
    ASSERT_EQ(chunks.size(), (length + 9 + 63) / 64 * 64);
    Sha256Digest digest;
    GetParam().digest_padded(chunks.data(), chunks.size() / 64, digest.data());
    ASSERT_EQ(Hex(digest), Hex(expected)) << length;
    // The digest may be written to the memory of the message. The first bytes of the message are
    // then overwritten.
    GetParam().digest_padded(chunks.data(), chunks.size() / 64, chunks.data());
    ASSERT_EQ(Hex(std::span(chunks).first(32)), Hex(expected)) << length;
  }
}

TEST_P(Sha256Test, APaddingHoldsLengthsBeyondFourGigabytes) {
  constexpr uint64_t kBytes = (uint64_t{0x123456} << 32) + 64;
  const Sha256Padding padding(kBytes);
  ASSERT_EQ(padding.bytes().size(), 64u);
  EXPECT_EQ(Hex(padding.bytes().last(8)), "0091a2b000000200");
}

TEST_P(Sha256Test, AMessageMayComeInPiecesOfAnyLength) {
  const std::vector<uint8_t> message = Message(300);
  const std::string expected = Hex(ByOpenSsl(message));
  for (size_t first = 0; first <= message.size(); first += 7) {
    for (const size_t piece : {1, 5, 63, 64, 65, 128, 300}) {
      const auto write = [&](ByteSink sink) {
        sink(std::span(message).first(first));
        for (size_t at = first; at < message.size(); at += piece) {
          sink(std::span(message).subspan(at, std::min(piece, message.size() - at)));
        }
        sink({});
      };
      ASSERT_EQ(Hex(Sha256Of(write, GetParam())), expected) << first << " and " << piece;
    }
  }
}

TEST_P(Sha256Test, CompressesSeveralChunksLikeOneAfterTheOther) {
  const std::vector<uint8_t> chunks = Message(5 * kSha256ChunkBytes);
  Sha256State together = {1, 2, 3, 4, 5, 6, 7, 8};
  Sha256State apart = together;
  GetParam().compress(together, chunks.data(), 5);
  for (size_t i = 0; i < 5; ++i) GetParam().compress(apart, &chunks[i * kSha256ChunkBytes], 1);
  EXPECT_EQ(together, apart);
  Sha256State portable = {1, 2, 3, 4, 5, 6, 7, 8};
  Sha256Implementations().back().compress(portable, chunks.data(), 5);
  EXPECT_EQ(together, portable);
}

std::string NameOfImplementation(const testing::TestParamInfo<Sha256Implementation>& info) {
  std::string name(info.param.name);
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Each, Sha256Test,
                         testing::ValuesIn(Sha256Implementations().begin(),
                                           Sha256Implementations().end()),
                         NameOfImplementation);

TEST(Sha256ImplementationsTest, ThePortableOneIsAlwaysThere) {
  EXPECT_EQ(Sha256Implementations().back().name, "portable");
}

TEST(Sha256ImplementationsTest, ACpuWithShaInstructionsUsesThem) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.find(" sha_ni") == std::string::npos) GTEST_SKIP() << "this CPU has none";
  EXPECT_EQ(Sha256Implementations().front().name, "sha-ni");
}

}  // namespace
}  // namespace incipit
