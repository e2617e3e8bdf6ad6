// Tests the inputs of block keys besides tokens: seed, tenant, salt, adapter and media.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/kvcache/keys/block_hash_fixture.h"
#include "tests/kvcache/keys/key_vectors_text.h"

namespace incipit {
namespace {

using BlockExtrasTest = BlockHashTest;

// Returns cache namespaces of which no two are equal.
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

TEST_P(BlockExtrasTest, NoTwoNamespacesHaveAKeyInCommon) {
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

TEST_P(BlockExtrasTest, AnAdapterCountsByItsContentAndInCborByItsNameToo) {
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

// Other programs define the bytes of the CBOR formats, in which a salt and an adapter name may give
// equal bytes. In the other formats, the digest of the namespace distinguishes a salt from an
// adapter name.
TEST_P(BlockExtrasTest, ASaltMayLookLikeAnAdapterOnlyInCbor) {
  const BlockHasher hasher = Hasher();
  const CacheNamespace salted = {.salt = "x"};
  const CacheNamespace adapted = {.adapter = AdapterKey{"x", {1}}};
  const bool same = Chain(hasher, Range(0, 4), salted) == Chain(hasher, Range(0, 4), adapted);
  EXPECT_EQ(same, IsCbor(GetParam()));
  EXPECT_TRUE(!same || NeedsVerification(GetParam()));
  EXPECT_NE(hasher.Root(salted).digest, hasher.Root(adapted).digest);
}

TEST_P(BlockExtrasTest, TheSeedEntersKeysAndDigest) {
  const BlockHasher one({.block_size = 4, .algorithm = GetParam(), .seed = "1"});
  const BlockHasher two({.block_size = 4, .algorithm = GetParam(), .seed = "2"});
  EXPECT_NE(Chain(one, Range(0, 4)), Chain(two, Range(0, 4)));
  EXPECT_NE(one.Root({}).digest, two.Root({}).digest);
}

TEST_P(BlockExtrasTest, MediaEnterTheBlocksThatTheyTouchAndThoseAfter) {
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
  // The tokens [6, 12) of the image are in blocks 1 and 2.
  const ExtraKey in_block_1[] = {{ExtraKind::kMedia, "cat", 2}};
  const ExtraKey in_block_2[] = {{ExtraKind::kMedia, "cat", -2}};
  const auto block = std::span(tokens).first(4);
  EXPECT_EQ(cat[1], hasher.Next(cat[0], block, in_block_1));
  EXPECT_EQ(cat[2], hasher.Next(cat[1], block, in_block_2));
  EXPECT_EQ(cat[3], hasher.Next(cat[2], block));
}

TEST_P(BlockExtrasTest, AMediumBetweenBoundariesOfBlocksTouchesNoneBesides) {
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

TEST_P(BlockExtrasTest, ABlockMayHoldAMediumInEveryToken) {
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

INSTANTIATE_TEST_SUITE_P(Each, BlockExtrasTest, testing::ValuesIn(kEveryAlgorithm),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

}  // namespace
}  // namespace incipit
