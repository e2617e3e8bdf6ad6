#include "cli/bench/implied_cache.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/kvcache/cached_sequence.h"

namespace incipit {
namespace {

using Tokens = std::vector<uint32_t>;

// Computes the result of ImpliedCache by comparing each prompt with all earlier sequences.
class BruteForce {
 public:
  explicit BruteForce(size_t block_size) : block_size_(block_size) {}

  // Returns the longest prefix of `prompt` in whole blocks that an earlier sequence has. Adds the
  // next tokens of an earlier sequence whose next block is full, if there are enough of them.
  int32_t NumCached(const Tokens& prompt) const {
    size_t num_blocks = 0, num_copied = 0;
    for (const Tokens& other : sequences_) {
      num_blocks =
          std::max(num_blocks, std::min(NumEqual(prompt, other), prompt.size() - 1) / block_size_);
    }
    const size_t begin = num_blocks * block_size_;
    for (const Tokens& other : sequences_) {
      const size_t num_full = other.size() / block_size_ * block_size_;
      const size_t num_equal = std::min(NumEqual(prompt, other), begin + block_size_);
      if (num_equal < begin || num_full < begin + block_size_) continue;
      num_copied = std::max(num_copied, num_equal - begin);
    }
    const size_t num_left = prompt.size() - begin;
    const bool is_enough =
        num_copied >= std::max<size_t>(block_size_ / 4, 2) || num_copied == num_left;
    if (num_left < 2 || !is_enough) num_copied = 0;
    return static_cast<int32_t>(begin + std::min(num_copied, num_left - 1));
  }
  void Add(const Tokens& tokens) { sequences_.push_back(tokens); }

 private:
  static size_t NumEqual(const Tokens& a, const Tokens& b) {
    return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  }

  const size_t block_size_;
  std::vector<Tokens> sequences_;
};

// Returns the first tokens of an earlier sequence, or no tokens, and then random tokens.
Tokens RandomPrompt(std::mt19937_64& random, const std::vector<Tokens>& earlier, uint32_t vocab) {
  Tokens prompt;
  if (!earlier.empty() && random() % 4 != 0) {
    prompt = earlier[random() % earlier.size()];
    prompt.resize(random() % (prompt.size() + 1));
  }
  const size_t num_new = 1 + random() % 30;
  for (size_t i = 0; i < num_new; ++i) prompt.push_back(static_cast<uint32_t>(random() % vocab));
  return prompt;
}

TEST(ImpliedCacheTest, AgreesWithBruteForce) {
  for (const int32_t block_size : {1, 2, 4, 8, 16}) {
    std::mt19937_64 random(static_cast<uint64_t>(block_size));
    for (int round = 0; round < 50; ++round) {
      ImpliedCache cache(block_size);
      BruteForce brute(static_cast<size_t>(block_size));
      std::vector<Tokens> earlier;
      // With at most 16 sequences, no block has more siblings than the cache compares.
      for (int i = 0; i < 16; ++i) {
        const Tokens prompt = RandomPrompt(random, earlier, 5);
        ASSERT_EQ(cache.NumCached(prompt), brute.NumCached(prompt)) << block_size;
        cache.Add(prompt);
        brute.Add(prompt);
        earlier.push_back(prompt);
      }
    }
  }
}

// Runs each prompt through the server's cache: look up, compute, add output tokens and free.
TEST(ImpliedCacheTest, AgreesWithTheCacheOfTheServer) {
  for (const int32_t block_size : {4, 16}) {
    std::mt19937_64 random(static_cast<uint64_t>(block_size) + 100);
    KvCacheManager server({.num_blocks = 20'000, .block_size = block_size});
    ImpliedCache cache(block_size);
    std::vector<Tokens> earlier;
    int64_t num_found = 0;
    for (int i = 0; i < 1500; ++i) {
      const Tokens prompt = RandomPrompt(random, earlier, 1000);
      CachedSequence sequence(server, {prompt.begin(), prompt.end()});
      const int32_t num_cached = sequence.AdmitAndCommit();
      ASSERT_EQ(cache.NumCached(prompt), num_cached) << i;
      num_found += num_cached;
      Tokens whole = prompt;
      const size_t num_output = random() % 40;
      for (size_t j = 0; j < num_output; ++j) {
        whole.push_back(static_cast<uint32_t>(random() % 1000));
        sequence.tokens.push_back(static_cast<TokenId>(whole.back()));
      }
      server.hasher().Extend(sequence.table.root, sequence.tokens, sequence.table.hashes);
      ASSERT_TRUE(server.AllocateSlots(sequence.table, {}, sequence.num_tokens()));
      sequence.Commit();
      sequence.Free();
      cache.Add(prompt);
      cache.Add(whole);
      if (earlier.size() < 50) earlier.push_back(whole);
    }
    EXPECT_GT(num_found, 10'000);
  }
}

TEST(ImpliedCacheTest, CountsAllButTheLastTokenOfARepeatedPrompt) {
  ImpliedCache cache(16);
  Tokens prompt;
  for (uint32_t i = 0; i < 48; ++i) prompt.push_back(i);
  EXPECT_EQ(cache.NumCached(prompt), 0);
  cache.Add(prompt);
  EXPECT_EQ(cache.NumCached(prompt), 47);
  prompt.push_back(1000);
  EXPECT_EQ(cache.NumCached(prompt), 48);
  prompt.resize(40);
  EXPECT_EQ(cache.NumCached(prompt), 39);
}

TEST(ImpliedCacheTest, IsFullAfterItsLimit) {
  ImpliedCache cache(4, 8);
  cache.Add({{1, 2, 3, 4, 5, 6, 7, 8}});
  EXPECT_FALSE(cache.is_full());
  cache.Add({{1, 2, 3, 4, 5, 6, 7, 8, 9}});
  EXPECT_FALSE(cache.is_full()) << "no new full block";
  cache.Add({{1, 2, 3, 4, 9, 9, 9, 9}});
  EXPECT_TRUE(cache.is_full());
  EXPECT_EQ(cache.NumCached(Tokens{1, 2, 3, 4, 9, 9, 9, 9, 9}), 4);
}

}  // namespace
}  // namespace incipit
