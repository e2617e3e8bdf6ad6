// Tests which chunks of the cached blocks are stored before the cache ends, and in which order.
#include "engine/store_rest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/kvcache/cached_sequence.h"
#include "tests/support/fake_runner.h"
#include "tests/support/fake_tier.h"

namespace incipit {
namespace {

// Two blocks of 4 tokens in a chunk.
const ChunkShape kRestShape = {
    .block_size = 4, .blocks_per_chunk = 2, .block_bytes = 4 * sizeof(uint64_t)};
constexpr int32_t kChunkTokens = 8;

KvCacheOptions CacheOf(int32_t num_blocks, EvictionPolicyKind policy = EvictionPolicyKind::kLru) {
  return {.num_blocks = num_blocks, .block_size = 4, .policy = policy, .keeps_chain_origins = true};
}

std::vector<TokenId> Tokens(TokenId first, int32_t count) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

CachedChunks EvictAll(KvCacheManager& cache) {
  return cache.EvictChunks(kRestShape, [](const BlockHash&) { return true; });
}

std::vector<TokenId> TokensOf(const ChunkIdentity& identity) {
  std::vector<TokenId> tokens;
  while (tokens.size() < identity.tokens.size()) {
    const auto piece = identity.tokens.From(tokens.size());
    tokens.insert(tokens.end(), piece.begin(), piece.end());
  }
  return tokens;
}

// Expects that `chunk` is chunk number `number` of `sequence`.
void ExpectChunk(const CachedChunks& all, const CachedChunks::Chunk& chunk,
                 const CachedSequence& sequence, int32_t number,
                 std::span<const BlockId> blocks_of_sequence) {
  const ChunkIdentity wanted = IdentityOf(kRestShape, sequence.table.root, sequence.table.tenant,
                                          sequence.table.hashes, sequence.tokens, number);
  EXPECT_EQ(chunk.identity.key, wanted.key);
  EXPECT_EQ(chunk.identity.parent, wanted.parent);
  EXPECT_EQ(chunk.identity.first_token, wanted.first_token);
  EXPECT_EQ(chunk.identity.namespace_digest, wanted.namespace_digest);
  EXPECT_EQ(chunk.identity.tenant, wanted.tenant);
  EXPECT_EQ(TokensOf(chunk.identity), TokensOf(wanted));
  const auto blocks = std::span(all.blocks).subspan(chunk.blocks_begin, 2);
  EXPECT_TRUE(
      std::ranges::equal(blocks, blocks_of_sequence.subspan(static_cast<size_t>(2 * number), 2)));
}

TEST(EvictChunksTest, ChunksHaveTheIdentitiesOfTheirSequences) {
  KvCacheManager cache(CacheOf(32));
  CachedSequence plain(cache, Tokens(0, 20));
  CachedSequence salted(cache, Tokens(0, 17), MakeCacheNamespace("alice", "salt"));
  salted.table.tenant = 7;
  for (CachedSequence* const sequence : {&plain, &salted}) sequence->AdmitAndCommit();
  const std::vector<BlockId> of_plain = plain.table.blocks, of_salted = salted.table.blocks;
  plain.Free();
  salted.Free();
  const CachedChunks chunks = EvictAll(cache);
  ASSERT_EQ(chunks.chunks.size(), 4u);
  ExpectChunk(chunks, chunks.chunks[0], salted, 0, of_salted);
  ExpectChunk(chunks, chunks.chunks[1], salted, 1, of_salted);
  ExpectChunk(chunks, chunks.chunks[2], plain, 0, of_plain);
  ExpectChunk(chunks, chunks.chunks[3], plain, 1, of_plain);
  EXPECT_EQ(cache.num_cached(), 0);
  cache.CheckInvariants({});
}

TEST(EvictChunksTest, TheChunkThatThePolicyEvictsLastIsFirst) {
  KvCacheManager cache(CacheOf(32));
  for (const TokenId first : {100, 200, 300, 100}) {
    CachedSequence sequence(cache, Tokens(first, 17));
    sequence.AdmitAndCommit();
    sequence.Free();
  }
  std::vector<TokenId> order;
  for (const auto& chunk : EvictAll(cache).chunks) {
    order.push_back(TokensOf(chunk.identity).front());
  }
  EXPECT_EQ(order, (std::vector<TokenId>{100, 108, 300, 308, 200, 208}));
}

TEST(EvictChunksTest, LeavesOutChunksThatAreNotWanted) {
  KvCacheManager cache(CacheOf(32));
  CachedSequence sequence(cache, Tokens(0, 30));
  sequence.AdmitAndCommit();
  sequence.Free();
  const BlockHash unwanted = sequence.table.hashes[3];
  const CachedChunks chunks =
      cache.EvictChunks(kRestShape, [&](const BlockHash& key) { return key != unwanted; });
  ASSERT_EQ(chunks.chunks.size(), 2u);
  EXPECT_EQ(chunks.chunks[0].identity.first_token, 0);
  EXPECT_EQ(chunks.chunks[1].identity.first_token, 2 * kChunkTokens);
  EXPECT_EQ(chunks.chunks[1].identity.parent, unwanted);
  EXPECT_EQ(TokensOf(chunks.chunks[1].identity), Tokens(16, 8));
}

TEST(EvictChunksTest, LeavesOutBlocksOfARequestWithATimeToLive) {
  KvCacheManager cache(CacheOf(32));
  cache.Advance(Time(std::chrono::seconds(1)));
  CachedSequence first(cache, Tokens(0, 13));  // 3 full blocks: the second chunk is incomplete
  first.table.retention.time_to_live = std::chrono::hours(1);
  first.AdmitAndCommit();
  first.Free();
  CachedSequence second(cache, Tokens(0, 30));
  second.AdmitAndCommit();
  second.Free();
  const CachedChunks chunks = EvictAll(cache);
  ASSERT_EQ(chunks.chunks.size(), 1u);
  EXPECT_EQ(chunks.chunks[0].identity.first_token, 2 * kChunkTokens);
}

// A block that was computed for a request with a time to live is used again by another request.
TEST(EvictChunksTest, ABlockWithNewContentsDoesNotExpire) {
  KvCacheManager cache(CacheOf(4));
  CachedSequence first(cache, Tokens(0, 16));
  first.table.retention.time_to_live = std::chrono::hours(1);
  first.AdmitAndCommit();
  first.Free();
  CachedSequence second(cache, Tokens(100, 16));
  ASSERT_EQ(second.AdmitAndCommit(), 0);
  second.Free();
  EXPECT_EQ(EvictAll(cache).chunks.size(), 2u);
}

// Random prompts with common prefixes, some of them computed twice. Each cached chunk must occur
// once, with its blocks, and after the previous chunk of its sequence.
TEST(EvictChunksTest, EachCachedChunkOccursOnceAndAfterItsParent) {
  for (const auto& [policy, name] : kEvictionPolicyNames) {
    for (uint32_t seed = 0; seed < 30; ++seed) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(seed));
      std::minstd_rand random(seed + 1);
      KvCacheManager cache(CacheOf(24, policy));
      std::vector<std::unique_ptr<CachedSequence>> sequences;
      for (int32_t i = 0; i < 30; ++i) {
        cache.Advance(Time(std::chrono::seconds(i)));
        std::vector<TokenId> tokens;
        const auto length = static_cast<size_t>(9 + random() % 40);
        while (tokens.size() < length) {
          const auto block = static_cast<TokenId>(random() % 2);
          for (int32_t k = 0; k < 4; ++k) tokens.push_back(block);
        }
        auto sequence = std::make_unique<CachedSequence>(cache, tokens);
        if (random() % 3 == 0) {
          if (!cache.AllocateSlots(sequence->table, {}, sequence->num_tokens())) continue;
          sequence->Commit();
        } else if (sequence->Admit() >= 0) {
          sequence->Commit();
        } else {
          continue;
        }
        sequences.push_back(std::move(sequence));
        if (random() % 2 == 0) {
          for (const auto& one : sequences) one->Free();
        }
      }
      for (const auto& one : sequences) one->Free();
      // The blocks that a lookup finds for each cached chunk.
      std::map<std::array<uint8_t, 32>, std::vector<BlockId>> cached;
      for (const auto& one : sequences) {
        CachedSequence probe(cache, one->tokens);
        probe.tokens.push_back(0);
        const auto found = cache.GetComputedBlocks(probe.tokens, probe.table).blocks;
        for (size_t end = 2; end <= found.size(); end += 2) {
          cached[one->table.hashes[end - 1].bytes] = {found[end - 2], found[end - 1]};
        }
      }
      const CachedChunks chunks = EvictAll(cache);
      std::set<std::array<uint8_t, 32>> seen;
      for (const auto& chunk : chunks.chunks) {
        const auto& key = chunk.identity.key.bytes;
        EXPECT_TRUE(seen.insert(key).second);
        EXPECT_TRUE(chunk.identity.first_token == 0 || seen.contains(chunk.identity.parent.bytes));
        ASSERT_TRUE(cached.contains(key));
        EXPECT_TRUE(std::ranges::equal(cached.at(key),
                                       std::span(chunks.blocks).subspan(chunk.blocks_begin, 2)));
      }
      EXPECT_EQ(seen.size(), cached.size());
      cache.CheckInvariants({});
    }
  }
}

class StoreRestTest : public testing::Test {
 protected:
  StoreRestTest() {
    for (const TokenId first : {100, 200, 300}) {
      CachedSequence sequence(cache_, Tokens(first, 17));
      sequence.AdmitAndCommit();
      sequence.Free();
      for (const size_t block : {1, 3}) keys_.push_back(sequence.table.hashes[block]);
    }
  }
  static FakeTierOptions TierOptions() {
    FakeTierOptions options;
    options.shape = kRestShape;
    options.staging_slots = 1;
    options.polls_max = 3;
    return options;
  }
  StoredChunks Store() {
    return StoreRest(
        EvictAll(cache_), runner_, tier_, [this] { return num_polls_ >= polls_max_; },
        [this] {
          ++num_polls_;
          tier_.Poll();
        });
  }
  void PollUntilStored() {
    for (int32_t i = 0; i < 10; ++i) tier_.Poll();
  }

  KvCacheManager cache_{CacheOf(32)};
  FakeRunner runner_{{.num_blocks = 32, .block_size = 4}};
  FakeTier tier_{TierOptions()};
  // Keys of the chunks of the sequences that begin with the tokens 100, 200 and 300.
  std::vector<BlockHash> keys_;
  int32_t num_polls_ = 0, polls_max_ = 1000;
};

TEST_F(StoreRestTest, WaitsForRoomAndStoresAllChunks) {
  EXPECT_EQ(Store().num_stored, 6);
  PollUntilStored();
  for (const BlockHash& key : keys_) EXPECT_TRUE(tier_.Has(key));
  EXPECT_GT(num_polls_, 4);
}

TEST_F(StoreRestTest, StoresTheMostValuableChunksIfTheTierTakesFew) {
  tier_.AcceptStores(3);
  EXPECT_EQ(Store().num_stored, 3);
  PollUntilStored();
  for (const size_t stored : {4, 5, 2}) EXPECT_TRUE(tier_.Has(keys_[stored])) << stored;
}

TEST_F(StoreRestTest, EndsAtItsTimeLimit) {
  polls_max_ = 0;
  EXPECT_EQ(Store().num_stored, 0);
  PollUntilStored();
  EXPECT_EQ(tier_.num_chunks(), 0);
}

TEST_F(StoreRestTest, SkipsAChunkWhosePreviousChunkTheTierLacks) {
  tier_.Exclude(keys_[2]);
  EXPECT_EQ(Store().num_stored, 4);
  PollUntilStored();
  EXPECT_FALSE(tier_.Has(keys_[2]));
  EXPECT_FALSE(tier_.Has(keys_[3]));
  EXPECT_TRUE(tier_.Has(keys_[1]));
}

}  // namespace
}  // namespace incipit
