// Tests lookups with keys of few bits, which often collide. A lookup must still find equal prefixes
// only.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/kvcache/cached_sequence.h"

namespace incipit {
namespace {

constexpr int32_t kBlockSize = 4;
constexpr int32_t kNumBlocks = 40;

KvCacheOptions Options(HashAlgorithm algorithm) {
  return {.num_blocks = kNumBlocks,
          .block_size = kBlockSize,
          .hash = algorithm,
          .policy = EvictionPolicyKind::kLru};
}

class KeyCollisionTest : public testing::TestWithParam<std::pair<HashAlgorithm, int32_t>> {
 protected:
  KvCacheManager cache_{Options(GetParam().first), {.digest_bits = GetParam().second}};
};

// The inputs that determine the keys and values of a block.
struct Prefix {
  std::string salt, adapter;
  std::vector<TokenId> tokens;

  friend bool operator==(const Prefix&, const Prefix&) = default;
};

CacheNamespace NamespaceWith(const std::string& salt, const std::string& adapter) {
  CacheNamespace names = {.salt = salt};
  if (!adapter.empty()) names.adapter = AdapterKey{adapter, {1}};
  return names;
}

std::vector<TokenId> First(const std::vector<TokenId>& tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count)};
}

TEST_P(KeyCollisionTest, OnlyEqualPrefixesAreFound) {
  std::mt19937_64 random(7);
  std::map<BlockId, Prefix> contents;
  int64_t num_hits = 0, num_copies = 0, num_collisions = 0;
  for (int i = 0; i < 5'000; ++i) {
    Prefix prefix;
    // Salt and adapter may have the same name.
    prefix.salt = std::vector<std::string>{"", "x", "y"}[random() % 3];
    prefix.adapter = std::vector<std::string>{"", "x"}[random() % 2];
    // Blocks with equal tokens occur after different prefixes.
    std::vector<TokenId> tokens;
    for (size_t n = 1 + random() % 6; n > 0; --n) {
      tokens.insert(tokens.end(), kBlockSize, static_cast<TokenId>(random() % 2));
      if (random() % 4 == 0) tokens.back() = 2;
    }
    tokens.push_back(9);
    CachedSequence sequence(cache_, tokens, NamespaceWith(prefix.salt, prefix.adapter));
    const ComputedBlocks computed = cache_.GetComputedBlocks(tokens, sequence.table);
    for (size_t b = 0; b < computed.blocks.size(); ++b) {
      prefix.tokens = First(tokens, (b + 1) * kBlockSize);
      ASSERT_EQ(contents.at(computed.blocks[b]), prefix);
    }
    if (computed.copy_source != kNoBlock) {
      const auto num_tokens = static_cast<size_t>(computed.num_tokens);
      prefix.tokens = First(tokens, num_tokens);
      Prefix source = contents.at(computed.copy_source);
      source.tokens = First(source.tokens, num_tokens);
      ASSERT_EQ(source, prefix);
      ++num_copies;
    }
    num_hits += static_cast<int64_t>(computed.blocks.size());
    ASSERT_GE(sequence.AdmitAndCommit(), 0);
    for (size_t b = 0; b < tokens.size() / kBlockSize; ++b) {
      prefix.tokens = First(tokens, (b + 1) * kBlockSize);
      contents[sequence.table.blocks[b]] = prefix;
    }
    sequence.Free();
    if (i % 100 == 0) cache_.CheckInvariants({});
    num_collisions += cache_.TakeStats().collisions;
  }
  EXPECT_GT(num_hits, 100);
  EXPECT_GT(num_copies, 100);
  EXPECT_GT(num_collisions, 100);
}

TEST_P(KeyCollisionTest, NothingOfASequenceIsPublishedFromACollisionOn) {
  // The first block of `other` may have the same key as a cached block with other tokens (a
  // collision). No later block of `other` may then be published, even if the key of the later block
  // is unique.
  for (TokenId first = 0; first < 400; ++first) {
    CachedSequence holder(cache_, {7, 7, 7, 7, 7});
    holder.AdmitAndCommit();
    CachedSequence other(cache_, TokenRange(first, 3 * kBlockSize));
    other.AdmitAndCommit();
    if (other.table.collided) {
      EXPECT_LT(other.table.num_published, 3);
      for (size_t b = static_cast<size_t>(other.table.num_published); b < 3; ++b) {
        EXPECT_FALSE(cache_.pool().is_published(other.table.blocks[b]));
      }
    }
    other.Free();
    holder.Free();
    ASSERT_TRUE(cache_.ResetPrefixCache());
  }
  EXPECT_GT(cache_.TakeStats().collisions, 10);
}

// If the key of a block collides with the key of another block, the sequence does not publish its
// blocks from there on. Choices that share these blocks must not publish blocks either. This must
// hold even if the key is free again and a later step is rolled back.
TEST_P(KeyCollisionTest, AChoiceOfASequenceThatCollidedPublishesNothingEither) {
  int32_t num_collided = 0;
  for (TokenId first = 0; first < 200; ++first) {
    ASSERT_TRUE(cache_.ResetPrefixCache());
    CachedSequence holder(cache_, {7, 7, 7, 7, 7});
    holder.AdmitAndCommit();
    CachedSequence parent(cache_, TokenRange(first, kBlockSize));
    CachedSequence child(cache_, TokenRange(first, kBlockSize));
    parent.AdmitAndCommit();
    holder.Free();
    cache_.EvictTo(0);
    num_collided += parent.table.collided;
    ASSERT_TRUE(cache_.Fork(parent.table, child.table, kBlockSize));
    for (CachedSequence* sequence : {&parent, &child}) {
      sequence->tokens.push_back(9);
      ASSERT_TRUE(cache_.AllocateSlots(sequence->table, {}, sequence->num_tokens()));
      cache_.Announce(sequence->table, sequence->tokens);
    }
    cache_.Rollback(child.table);
    cache_.Rollback(parent.table);
    for (TokenId token = 0; token < kBlockSize; ++token) {
      parent.Decode(token);
      child.Decode(token);
    }
    cache_.CheckInvariants(std::vector<const BlockTable*>{&parent.table, &child.table});
    child.Free();
    parent.Free();
  }
  EXPECT_GT(num_collided, 0);
}

std::vector<std::pair<HashAlgorithm, int32_t>> Weaknesses() {
  std::vector<std::pair<HashAlgorithm, int32_t>> all;
  for (const auto algorithm :
       {HashAlgorithm::kXxh3, HashAlgorithm::kSha256Cbor, HashAlgorithm::kXxh3Cbor}) {
    for (const int32_t digest_bits : {1, 2, 4, 6}) all.emplace_back(algorithm, digest_bits);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Each, KeyCollisionTest, testing::ValuesIn(Weaknesses()),
                         [](const auto& info) {
                           return std::string(NameOf(info.param.first)) + "_" +
                                  std::to_string(info.param.second) + "_bits";
                         });

}  // namespace
}  // namespace incipit
