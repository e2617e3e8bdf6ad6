#include "kvcache/keys/block_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

#include "base/hash/xxh3.h"
#include "tests/kvcache/keys/block_hash_fixture.h"
#include "tests/kvcache/keys/key_vectors_text.h"

namespace incipit {
namespace {

TEST_P(BlockHashTest, KeysAreThoseComputedWithoutOurCode) {
  for (const KeyVector& vector : KeyVectors()) {
    const BlockHasher hasher = HasherOf(vector, GetParam());
    EXPECT_EQ(Hex(hasher.Root(NamespaceOf(vector)).digest), vector.root_digest) << vector.name;
    std::vector<std::string> digests;
    for (const BlockHash& hash : ChainOf(vector, GetParam())) {
      digests.push_back(Hex(hasher.DigestOf(hash)));
    }
    EXPECT_EQ(digests, ExpectedOf(vector, GetParam())) << vector.name;
  }
}

TEST_P(BlockHashTest, AKeyIsTheDigestOfTheBlocksMessageAtEveryBlockSize) {
  for (int32_t block_size = 1; block_size <= 256; ++block_size) {
    const BlockHasher hasher = Hasher(block_size);
    const BlockHash parent = hasher.Root({.salt = "pepper"}).parent;
    const std::vector<TokenId> tokens = VectorTokens(static_cast<size_t>(block_size));
    const BlockMessage message = {hasher.DigestOf(parent), tokens, {}};
    std::vector<uint8_t> bytes;
    const auto append = [&](std::span<const uint8_t> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    };
    IsCbor(GetParam()) ? WriteCborBlock(message, append) : WriteBlock(message, append);
    const BlockHash key = hasher.Next(parent, tokens);
    ASSERT_EQ(Hex(hasher.DigestOf(key)),
              IsSha256(GetParam()) ? Hex(Sha256(bytes)) : Hex(Xxh3(bytes)))
        << block_size;
  }
}

TEST_P(BlockHashTest, AKeyHoldsItsDigestAndWhereThereIsRoomThatOfItsParent) {
  const BlockHasher hasher = Hasher();
  const ChainRoot root = hasher.Root({.salt = "pepper"});
  const std::vector<TokenId> tokens = Range(0, 4);
  const ExtraKey extras[] = {{ExtraKind::kMedia, "image", 0}};
  const std::vector<BlockHash> chain = Chain(hasher, Range(0, 12), {.salt = "pepper"});
  const std::pair<BlockHash, BlockHash> pairs[] = {
      {root.parent, chain[0]},
      {chain[0], chain[1]},
      {chain[1], chain[2]},
      {chain[2], hasher.Next(chain[2], tokens)},
      {chain[2], hasher.Next(chain[2], tokens, extras)}};
  for (const auto& [parent, hash] : pairs) {
    const std::span<const uint8_t> digest = hasher.DigestOf(hash);
    ASSERT_EQ(digest.size(), IsSha256(GetParam()) ? 32u : 16u);
    EXPECT_EQ(Hex(hash.bytes), (Hex(digest) + Hex(hasher.DigestOf(parent))).substr(0, 64));
  }
}

TEST_P(BlockHashTest, AKeyDependsOnEveryTokenBeforeIt) {
  const BlockHasher hasher = Hasher();
  const std::vector<TokenId> tokens = Range(0, 12);
  const std::vector<BlockHash> hashes = Chain(hasher, tokens);
  ASSERT_EQ(hashes.size(), 3u);
  for (size_t changed = 0; changed < tokens.size(); ++changed) {
    std::vector<TokenId> others = tokens;
    others[changed] ^= 1 << (changed * 2);
    const std::vector<BlockHash> other_hashes = Chain(hasher, others);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(hashes[i] == other_hashes[i], i < changed / 4);
  }
}

TEST_P(BlockHashTest, OnlyFullBlocksHaveAKeyAndThoseThatHaveOneKeepIt) {
  const BlockHasher hasher = Hasher();
  const ChainRoot root = hasher.Root({});
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
  hasher.Extend(root, std::span(tokens).first(4), hashes);
  EXPECT_EQ(hashes.size(), 2u);
}

TEST_P(BlockHashTest, AChainIsTheSameInHoweverManyPartsItIsMade) {
  for (const KeyVector& vector : KeyVectors()) {
    const BlockHasher hasher = HasherOf(vector, GetParam());
    const ChainRoot root = hasher.Root(NamespaceOf(vector), vector.media);
    const std::vector<BlockHash> at_once = ChainOf(vector, GetParam());
    const std::vector<TokenId> tokens =
        VectorTokens(at_once.size() * static_cast<size_t>(vector.block_size));
    std::vector<BlockHash> in_parts;
    for (size_t n = 0; n <= tokens.size(); ++n) {
      hasher.Extend(root, std::span(tokens).first(n), in_parts);
    }
    EXPECT_EQ(in_parts, at_once) << vector.name;
  }
}

TEST_P(BlockHashTest, AWeakenedDigestKeepsItsFirstBits) {
  const std::vector<BlockHash> whole = Chain(Hasher(), Range(0, 4));
  const BlockHasher weak = Hasher(4, 3);
  EXPECT_EQ(weak.Root({.salt = "s"}).digest, Hasher().Root({.salt = "s"}).digest);
  std::set<std::string> keys;
  for (TokenId first = 0; first < 200; ++first) {
    const std::vector<BlockHash> chain = Chain(weak, Range(first, 8));
    for (const BlockHash& hash : chain) {
      const std::span<const uint8_t> digest = weak.DigestOf(hash);
      EXPECT_EQ(digest[0] & 0x1f, 0);
      EXPECT_EQ(Hex(digest.subspan(1)), std::string(2 * (digest.size() - 1), '0'));
    }
    keys.insert(Hex(weak.DigestOf(chain[1])));
  }
  EXPECT_EQ(keys.size(), 8u);
  const int32_t digest_bits = static_cast<int32_t>(8 * DigestBytes(GetParam()));
  EXPECT_EQ(Chain(Hasher(4, digest_bits), Range(0, 4)), whole);
  EXPECT_NE(Chain(Hasher(4, digest_bits - 1), Range(0, 400)), Chain(Hasher(), Range(0, 400)));
  EXPECT_EQ(Hex(weak.DigestOf(Chain(Hasher(4, 0), Range(0, 4))[0])),
            std::string(2 * DigestBytes(GetParam()), '0'));
}

TEST_P(BlockHashTest, ThreadsMayShareAHasher) {
  const BlockHasher hasher = Hasher(16);
  const ChainRoot root = hasher.Root({.salt = "pepper"}, {{"cat", 100, 300}});
  const std::vector<TokenId> tokens = Range(0, 4096);
  std::vector<std::vector<BlockHash>> chains(4);
  std::vector<std::thread> threads;
  for (auto& chain : chains) {
    threads.emplace_back([&] { hasher.Extend(root, tokens, chain); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& chain : chains) EXPECT_EQ(chain, chains.front());
  EXPECT_EQ(chains.front().size(), 256u);
}

INSTANTIATE_TEST_SUITE_P(Each, BlockHashTest, testing::ValuesIn(kEveryAlgorithm),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

TEST(BlockHashDeathTest, WrongInputsAreRefused) {
  EXPECT_DEATH(BlockHasher({.block_size = 0}), "block_size");
  EXPECT_DEATH(BlockHasher({.block_size = 257}), "block_size");
  EXPECT_DEATH(BlockHasher({}, 257), "digest_bits");
  const BlockHasher hasher({.block_size = 4});
  EXPECT_DEATH(hasher.Next({}, Range(0, 3)), "block_size");
  EXPECT_DEATH(hasher.Root({}, {{"cat", 4, 4}, {"dog", 7, 1}}), "IsOrdered");
  EXPECT_DEATH(hasher.Root({}, {{"cat", 4, 0}}), "IsOrdered");
}

// SHA-256 needs one compression for every 64 bytes. The key of a block of 16 tokens needs two
// compressions, of 32 tokens three, and of 64 tokens five.
TEST(BlockHashMessageTest, ABlockTakesAsFewCompressionsAsItsTokensAllow) {
  for (const auto& [num_tokens, num_compressions] :
       {std::pair<size_t, size_t>(16, 2), {32, 3}, {64, 5}}) {
    const size_t message_bytes = 32 + 4 * num_tokens + PlainBlockTrailer(num_tokens).size();
    EXPECT_EQ((message_bytes + Sha256Padding(message_bytes).bytes().size()) / kSha256ChunkBytes,
              num_compressions);
  }
}

}  // namespace
}  // namespace incipit
