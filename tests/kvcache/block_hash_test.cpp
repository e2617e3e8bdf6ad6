#include "kvcache/block_hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <thread>

#include "kvcache/xxh3.h"
#include "tests/kvcache/key_vectors_text.h"

namespace incipit {
namespace {

std::vector<TokenId> Range(TokenId first, int32_t count) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class BlockHashTest : public testing::TestWithParam<HashAlgorithm> {
 protected:
  static BlockHasher Hasher(int32_t block_size = 4, int32_t digest_bits = 256) {
    return BlockHasher(
        {.block_size = block_size, .algorithm = GetParam(), .digest_bits = digest_bits});
  }
  static std::vector<BlockHash> Chain(const BlockHasher& hasher, std::span<const TokenId> tokens,
                                      const CacheNamespace& names = {},
                                      std::vector<MediaSpan> media = {}) {
    std::vector<BlockHash> hashes;
    hasher.Extend(hasher.Root(names, std::move(media)), tokens, hashes);
    return hashes;
  }
};

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

// Every two of them differ in one thing.
std::vector<CacheNamespace> Namespaces() {
  std::vector<CacheNamespace> all;
  for (const std::optional<std::string>& tenant :
       {std::optional<std::string>(), std::optional<std::string>(""),
        std::optional<std::string>("a"), std::optional<std::string>("ab")}) {
    for (const std::string salt : {"", "a", "b", "ab"}) {
      all.push_back({.tenant = tenant, .salt = salt});
      all.push_back({.tenant = tenant, .salt = salt, .adapter = AdapterKey{"x", {1}}});
    }
  }
  return all;
}

TEST_P(BlockHashTest, NoTwoNamespacesHaveAKeyInCommon) {
  const BlockHasher hasher = Hasher();
  std::set<std::string> roots, first_keys, later_keys;
  for (const CacheNamespace& names : Namespaces()) {
    roots.insert(Hex(hasher.Root(names).digest));
    const std::vector<BlockHash> chain = Chain(hasher, Range(0, 8), names);
    first_keys.insert(Hex(chain[0].bytes));
    later_keys.insert(Hex(chain[1].bytes));
  }
  EXPECT_EQ(roots.size(), Namespaces().size());
  EXPECT_EQ(first_keys.size(), Namespaces().size());
  EXPECT_EQ(later_keys.size(), Namespaces().size());
}

TEST_P(BlockHashTest, AnAdapterCountsByItsContentAndInCborByItsNameToo) {
  const BlockHasher hasher = Hasher();
  const CacheNamespace first = {.adapter = AdapterKey{"x", {1}}};
  const CacheNamespace renamed = {.adapter = AdapterKey{"y", {1}}};
  const CacheNamespace changed = {.adapter = AdapterKey{"x", {2}}};
  EXPECT_EQ(hasher.Root(first).digest, hasher.Root(renamed).digest);
  EXPECT_NE(hasher.Root(first).digest, hasher.Root(changed).digest);
  const auto key = [&](const CacheNamespace& names) {
    return Chain(hasher, Range(0, 4), names)[0];
  };
  EXPECT_EQ(key(first) == key(renamed), !IsCbor(GetParam()));
  EXPECT_EQ(key(first) == key(changed), IsCbor(GetParam()));
}

// The bytes are not ours to choose; the digest of the namespace tells them apart.
TEST_P(BlockHashTest, ASaltMayLookLikeAnAdapterOnlyInCbor) {
  const BlockHasher hasher = Hasher();
  const CacheNamespace salted = {.salt = "x"};
  const CacheNamespace adapted = {.adapter = AdapterKey{"x", {1}}};
  const bool same = Chain(hasher, Range(0, 4), salted) == Chain(hasher, Range(0, 4), adapted);
  EXPECT_EQ(same, IsCbor(GetParam()));
  EXPECT_TRUE(!same || NeedsVerification(GetParam()));
  EXPECT_NE(hasher.Root(salted).digest, hasher.Root(adapted).digest);
}

TEST_P(BlockHashTest, TheSeedEntersKeysAndDigest) {
  const BlockHasher one({.block_size = 4, .algorithm = GetParam(), .seed = "1"});
  const BlockHasher two({.block_size = 4, .algorithm = GetParam(), .seed = "2"});
  EXPECT_NE(Chain(one, Range(0, 4)), Chain(two, Range(0, 4)));
  EXPECT_NE(one.Root({}).digest, two.Root({}).digest);
}

TEST_P(BlockHashTest, MediaEnterTheBlocksThatTheyTouchAndThoseAfter) {
  const BlockHasher hasher = Hasher();
  const std::vector<TokenId> tokens(20, 7);
  const std::vector<BlockHash> plain = Chain(hasher, tokens);
  const std::vector<BlockHash> cat = Chain(hasher, tokens, {}, {{"cat", 6, 6}});
  const std::vector<BlockHash> dog = Chain(hasher, tokens, {}, {{"dog", 6, 6}});
  const std::vector<BlockHash> moved = Chain(hasher, tokens, {}, {{"cat", 5, 6}});
  EXPECT_EQ(cat[0], plain[0]);
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_NE(cat[i], plain[i]);
    EXPECT_NE(cat[i], dog[i]);
    EXPECT_NE(cat[i], moved[i]);
  }
  // Tokens 6 to 11 are in blocks 1 and 2.
  const ExtraKey in_block_1[] = {{ExtraKind::kMedia, "cat", 2}};
  const ExtraKey in_block_2[] = {{ExtraKind::kMedia, "cat", -2}};
  const auto block = std::span(tokens).first(4);
  EXPECT_EQ(cat[1], hasher.Next(cat[0], block, in_block_1));
  EXPECT_EQ(cat[2], hasher.Next(cat[1], block, in_block_2));
  EXPECT_EQ(cat[3], hasher.Next(cat[2], block));
}

TEST_P(BlockHashTest, AMediumBetweenBoundariesOfBlocksTouchesNoneBesides) {
  const BlockHasher hasher = Hasher();
  const std::vector<TokenId> tokens(16, 7);
  const auto block = std::span(tokens).first(4);
  const std::vector<BlockHash> plain = Chain(hasher, tokens);
  const std::vector<BlockHash> cat = Chain(hasher, tokens, {}, {{"cat", 8, 4}});
  const ExtraKey in_block_2[] = {{ExtraKind::kMedia, "cat", 0}};
  EXPECT_EQ(cat[1], plain[1]);
  EXPECT_EQ(cat[2], hasher.Next(plain[1], block, in_block_2));
  EXPECT_EQ(cat[3], hasher.Next(cat[2], block));
}

TEST_P(BlockHashTest, ABlockMayHoldAMediumInEveryToken) {
  const BlockHasher hasher = Hasher(256);
  std::vector<MediaSpan> media;
  for (int i = 0; i < 512; ++i) media.push_back({std::to_string(i), i, 1});
  const CacheNamespace names = {.tenant = "t", .salt = "s", .adapter = AdapterKey{"a", {}}};
  const std::vector<TokenId> tokens(512, 7);
  const std::vector<BlockHash> chain = Chain(hasher, tokens, names, media);
  media.back().content_hash = "another";
  const std::vector<BlockHash> other = Chain(hasher, tokens, names, media);
  EXPECT_EQ(chain[0], other[0]);
  EXPECT_NE(chain[1], other[1]);
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
  EXPECT_DEATH(BlockHasher({.digest_bits = 257}), "digest_bits");
  const BlockHasher hasher({.block_size = 4});
  EXPECT_DEATH(hasher.Next({}, Range(0, 3)), "block_size");
  EXPECT_DEATH(hasher.Root({}, {{"cat", 4, 4}, {"dog", 7, 1}}), "IsOrdered");
  EXPECT_DEATH(hasher.Root({}, {{"cat", 4, 0}}), "IsOrdered");
}

// 16 tokens: two compressions; 32: three; 64: five.
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
