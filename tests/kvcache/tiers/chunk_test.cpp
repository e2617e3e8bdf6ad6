// Tests the size of chunks, and the identity of a chunk of a sequence.
#include "kvcache/tiers/chunk.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace incipit {
namespace {

struct ShapeCase {
  int32_t block_size;
  size_t token_bytes;
  int32_t chunk_tokens;
};

class ChunkShapeTest : public testing::TestWithParam<ShapeCase> {};

TEST_P(ChunkShapeTest, HasTheExpectedNumberOfTokens) {
  const ShapeCase& size = GetParam();
  const ChunkShape shape =
      MakeChunkShape(size.block_size, size.token_bytes * static_cast<size_t>(size.block_size));
  EXPECT_EQ(shape.num_tokens(), size.chunk_tokens);
  EXPECT_EQ(shape.num_bytes(), size.token_bytes * static_cast<size_t>(size.chunk_tokens));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ChunkShapeTest,
                         testing::Values(ShapeCase{16, 12 * 1024, 128},  // 0.5B model, bf16
                                         ShapeCase{16, 128 * 1024, 16},  // 8B model, bf16
                                         ShapeCase{16, 64 * 1024, 16},   // exactly 1 MiB
                                         ShapeCase{16, 64 * 1024 - 1, 32},
                                         ShapeCase{256, 1, 256},  // one block is enough
                                         ShapeCase{1, 1, 128}));

TEST(ChunkIdentityTest, DescribesEachChunkOfASequence) {
  const BlockHasher hasher({.block_size = 4});
  std::vector<TokenId> head(12), tail(9);
  std::iota(head.begin(), head.end(), 100);
  std::iota(tail.begin(), tail.end(), 500);
  const SequenceTokens tokens(head, tail);
  const ChainRoot root = hasher.Root(MakeCacheNamespace("a tenant", "a salt"));
  std::vector<BlockHash> hashes;
  hasher.Extend(root, tokens, hashes);
  ASSERT_EQ(hashes.size(), 5);
  const ChunkShape shape = {.block_size = 4, .blocks_per_chunk = 2, .block_bytes = 1};

  const ChunkIdentity first = IdentityOf(shape, root, 7, hashes, tokens, 0);
  EXPECT_EQ(first.key, hashes[1]);
  EXPECT_EQ(first.parent, root.parent);
  EXPECT_EQ(first.first_token, 0);
  EXPECT_EQ(first.namespace_digest, root.digest);
  EXPECT_EQ(first.tenant, 7u);

  // The second chunk begins in `head` and ends in `tail`.
  const ChunkIdentity second = IdentityOf(shape, root, 7, hashes, tokens, 1);
  EXPECT_EQ(second.key, hashes[3]);
  EXPECT_EQ(second.parent, hashes[1]);
  EXPECT_EQ(second.first_token, 8);
  ASSERT_EQ(second.tokens.size(), 8u);
  EXPECT_EQ(second.tokens.From(0).front(), 108);
  EXPECT_EQ(second.tokens.From(4).front(), 500);
}

TEST(ChunkIdentityDeathTest, AnIncompleteChunkHasNoIdentity) {
  const BlockHasher hasher({.block_size = 4});
  const std::vector<TokenId> tokens(12, 1);
  const ChainRoot root = hasher.Root({});
  std::vector<BlockHash> hashes;
  hasher.Extend(root, tokens, hashes);
  const ChunkShape shape = {.block_size = 4, .blocks_per_chunk = 2, .block_bytes = 1};
  EXPECT_DEATH(IdentityOf(shape, root, 0, hashes, tokens, 1), "last_block < hashes.size");
}

}  // namespace
}  // namespace incipit
