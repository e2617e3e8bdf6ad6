#include "kvcache/sha256.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <string>
#include <string_view>
#include <vector>

namespace incipit {
namespace {

std::string HexOf(std::span<const uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string HexOf(std::string_view message) {
  return HexOf(Sha256({reinterpret_cast<const uint8_t*>(message.data()), message.size()}));
}

// The examples that NIST publishes with FIPS 180-4.
TEST(Sha256Test, EqualsThePublishedVectors) {
  EXPECT_EQ(HexOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HexOf(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, EqualsAnotherImplementationAtEveryLengthAroundTheChunks) {
  std::vector<uint8_t> message;
  for (size_t length = 0; length <= 300; ++length) {
    Sha256Digest expected;
    ASSERT_EQ(EVP_Digest(message.data(), length, expected.data(), nullptr, EVP_sha256(), nullptr),
              1);
    ASSERT_EQ(HexOf(Sha256(message)), HexOf(expected)) << length;
    message.push_back(static_cast<uint8_t>(length * 37 + 11));
  }
}

}  // namespace
}  // namespace incipit
