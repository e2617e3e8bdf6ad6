#include "kvcache/block_hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>

namespace incipit {
namespace {

std::string Hex(std::span<const uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::vector<TokenId> Range(TokenId first, int32_t count) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Computed with Python's hashlib from the layout that block_hash.cpp describes.
TEST(BlockHashTest, KeysAreTheSameInEveryProcess) {
  const CacheNamespace everybody = MakeCacheNamespace("default", "");
  EXPECT_EQ(Hex(everybody.digest),
            "a47522033807fe868919c57c1b3a186b86396b0482923d8c5ad31332b4c6ea51");
  const BlockHasher hasher(16, "");
  const BlockHash root = hasher.Root(everybody);
  EXPECT_EQ(Hex(root.bytes), "6e1401c97d90b6cc127fec656d300fd526772597095b778570a024c144776d8f");
  const BlockHash first = hasher.Next(root, Range(0, 16));
  EXPECT_EQ(Hex(first.bytes), "3fe80c74b2f42a67cf6408b976286b31053012a856c12ff641ce03928c20c9c1");
  EXPECT_EQ(Hex(hasher.Next(first, Range(100, 16)).bytes),
            "0adce2301d8357eeec795ccddbfbfe13d17177237fddc292e6c6b5409e43356c");
}

TEST(BlockHashTest, SeedSaltAndLargeTokenIdsEnterTheKeys) {
  const CacheNamespace salted = MakeCacheNamespace(std::nullopt, "pepper");
  EXPECT_EQ(Hex(salted.digest), "ae8c414135d862ea92665381caf39c5d015946a321d362eb17f6b92be4d0d4d8");
  const BlockHasher hasher(4, "seed 1");
  const BlockHash root = hasher.Root(salted);
  EXPECT_EQ(Hex(root.bytes), "8c08dbd36f1c2ccd44a9ee4f1f999c3c64041fb0f5a0815dc6bbcbb821e01961");
  EXPECT_EQ(Hex(hasher.Next(root, std::vector<TokenId>{7, 8, 9, 2147483647}).bytes),
            "dc36c1a5c166e390fd1c68fa9af12b28eae214870dbcc80fcc0ec9e3a72a1c9d");
}

TEST(BlockHashTest, NoTwoWaysToSayTenantAndSaltShareANamespace) {
  std::set<std::string> digests;
  size_t count = 0;
  for (const auto tenant :
       {std::optional<std::string_view>(), std::optional<std::string_view>(""),
        std::optional<std::string_view>("a"), std::optional<std::string_view>("ab"),
        std::optional<std::string_view>("b")}) {
    for (const std::string_view salt : {"", "a", "b", "ab", "ba"}) {
      digests.insert(Hex(MakeCacheNamespace(tenant, salt).digest));
      ++count;
    }
  }
  EXPECT_EQ(digests.size(), count);
}

TEST(BlockHashTest, AKeyDependsOnEveryTokenBeforeIt) {
  const BlockHasher hasher(4, "");
  const BlockHash root = hasher.Root({});
  std::vector<TokenId> tokens = Range(0, 12);
  std::vector<BlockHash> hashes;
  hasher.Extend(root, tokens, hashes);
  ASSERT_EQ(hashes.size(), 3u);
  tokens[1] = 99;
  std::vector<BlockHash> others;
  hasher.Extend(root, tokens, others);
  for (size_t i = 0; i < 3; ++i) EXPECT_NE(hashes[i], others[i]);
}

TEST(BlockHashTest, OnlyFullBlocksHaveAKeyAndThoseThatHaveOneKeepIt) {
  const BlockHasher hasher(4, "");
  const BlockHash root = hasher.Root({});
  const std::vector<TokenId> tokens = Range(0, 11);
  std::vector<BlockHash> hashes;
  hasher.Extend(root, std::span(tokens).first(3), hashes);
  EXPECT_TRUE(hashes.empty());
  hasher.Extend(root, std::span(tokens).first(7), hashes);
  ASSERT_EQ(hashes.size(), 1u);
  const BlockHash first = hashes[0];
  hasher.Extend(root, tokens, hashes);
  ASSERT_EQ(hashes.size(), 2u);
  EXPECT_EQ(hashes[0], first);
  EXPECT_EQ(hashes[1], hasher.Next(first, std::span(tokens).subspan(4, 4)));
}

}  // namespace
}  // namespace incipit
